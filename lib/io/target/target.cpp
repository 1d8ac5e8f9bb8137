#include "io/target/target.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "attnkit/error.hpp"
#include "io/target/file_target.hpp"
#include "io/target/scratch_target.hpp"
#include "io/target/stream_target.hpp"
#include "system/descriptor.hpp"
#include "system/paths.hpp"
#include "system/system_reason.hpp"
#include "system/temporary.hpp"

namespace attn::io {

std::unique_ptr<Target> make_target(const OutputBundle::Options& options) {
  const std::string& path = options.target;
  if (path == "-") return std::make_unique<StreamTarget>(options.tmpdir);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) {
      throw Error(Failure::output, "cannot write " + path + ": " + system_reason(errno));
    }
    return std::make_unique<FileTarget>(path, without_links(path), std::nullopt, options.force);
  }
  if (S_ISDIR(status.st_mode)) throw Error(Failure::output, path + " is a folder, expected a file");
  if (!S_ISREG(status.st_mode)) {
    return std::make_unique<StreamTarget>(path, S_ISFIFO(status.st_mode), options.tmpdir);
  }
  if (!options.force) refuse_existing(path);
  return std::make_unique<FileTarget>(path, without_links(path), status.st_mode & 07777, true);
}

std::unique_ptr<Target> make_scratch(const OutputBundle::Options& options,
                                     const std::string& description) {
  const std::string path = without_links(options.target);
  struct stat status {};
  const bool stream =
      options.target == "-" || (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode));
  if (stream) {
    return std::make_unique<ScratchTarget>(description, temporary_folder(options.tmpdir), "");
  }
  return std::make_unique<ScratchTarget>(description, folder_of(path),
                                         path.substr(path.rfind('/') + 1));
}

}  // namespace attn::io
