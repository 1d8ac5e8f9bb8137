#include "system/unnamed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"

namespace attn {

UnnamedFile::UnnamedFile(const std::string& folder, bool allow_tmpfile) : folder_(folder) {
  if (allow_tmpfile) descriptor_ = open_descriptor(folder, O_TMPFILE | O_RDWR, 0600);
  if (descriptor_) {
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor_.get());
    if (access(link.c_str(), F_OK) == 0) return;
  }
  name_ = make_temporary(folder, ".attn.", [&](const std::string& path) {
    descriptor_ = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    return static_cast<bool>(descriptor_);
  });
  if (!descriptor_) {
    throw Error(Failure::output,
                "cannot make a temporary file in " + folder + ": " + system_reason(errno),
                "name another folder with --tmpdir or TMPDIR");
  }
}

void UnnamedFile::with_name(const std::function<void(const std::string&)>& open) {
  if (name_.path().empty()) {
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor_.get());
    name_ = make_temporary(folder_, ".attn.", [&](const std::string& path) {
      return linkat(AT_FDCWD, link.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
    });
    if (name_.path().empty()) {
      throw Error(Failure::output,
                  "cannot name a temporary file in " + folder_ + ": " + system_reason(errno));
    }
  }
  const TemporaryName name = std::move(name_);
  open(name.path());
}

}  // namespace attn
