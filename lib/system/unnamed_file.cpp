#include "system/unnamed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"

namespace attn {
namespace {

constexpr const char* bundle_prefix = ".attn.";

std::string link_of(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

}  // namespace

Descriptor open_unnamed(const std::string& folder, const std::string& name_prefix,
                        TemporaryName& name, bool allow_tmpfile) {
  Descriptor opened;
  if (allow_tmpfile) opened = open_descriptor(folder, O_TMPFILE | O_RDWR, 0600);
  // Without /proc, name_unnamed could not name it.
  if (opened && access(link_of(opened.get()).c_str(), F_OK) == 0) return opened;
  opened.reset();
  name = make_temporary(folder, name_prefix, [&](const std::string& path) {
    opened = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    return static_cast<bool>(opened);
  });
  return opened;
}

TemporaryName name_unnamed(int descriptor, const std::string& folder,
                           const std::string& name_prefix) {
  const std::string link = link_of(descriptor);
  return make_temporary(folder, name_prefix, [&](const std::string& path) {
    return linkat(AT_FDCWD, link.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
  });
}

UnnamedFile::UnnamedFile(const std::string& folder, bool allow_tmpfile)
    : folder_(folder), descriptor_(open_unnamed(folder, bundle_prefix, name_, allow_tmpfile)) {
  if (!descriptor_) {
    throw Error(Failure::output,
                "cannot make a temporary file in " + folder + ": " + system_reason(errno),
                "name another folder with --tmpdir or TMPDIR");
  }
}

void UnnamedFile::with_name(const std::function<void(const std::string&)>& open) {
  if (name_.path().empty()) {
    name_ = name_unnamed(descriptor_.get(), folder_, bundle_prefix);
    if (name_.path().empty()) {
      throw Error(Failure::output,
                  "cannot name a temporary file in " + folder_ + ": " + system_reason(errno));
    }
  }
  const TemporaryName name = std::move(name_);
  open(name.path());
}

}  // namespace attn
