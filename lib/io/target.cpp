#include "io/target.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "io/descriptor.hpp"
#include "io/file_target.hpp"
#include "io/links.hpp"
#include "io/stream_target.hpp"
#include "tensor/error.hpp"

namespace attn::io {

std::unique_ptr<Target> make_target(const OutputBundle::Options& options) {
  const std::string& path = options.target;
  if (path == "-") return std::make_unique<StreamTarget>(options.tmpdir);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) {
      throw Error(Failure::output, "cannot write " + path + ": " + reason(errno));
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

}  // namespace attn::io
