#include "io/target.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "io/descriptor.hpp"
#include "io/file_target.hpp"
#include "io/stream_target.hpp"
#include "tensor/error.hpp"

namespace attn::io {
namespace {

/// Where a path leads in the end, whether or not there is anything.
std::string without_links(std::string path) {
  constexpr int as_many_as_linux_follows = 40;
  for (int followed = 0; followed < as_many_as_linux_follows; ++followed) {
    std::array<char, PATH_MAX> text{};
    const ssize_t length = readlink(path.c_str(), text.data(), text.size());
    if (length < 0) return path;
    const std::string leads_to(text.data(), static_cast<std::size_t>(length));
    const std::size_t slash = path.rfind('/');
    const bool beside = leads_to.empty() || leads_to.front() != '/';
    path = beside && slash != std::string::npos ? path.substr(0, slash + 1) + leads_to : leads_to;
  }
  return path;
}

}  // namespace

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
