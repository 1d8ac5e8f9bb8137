#include "io/target/file_target.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "attnkit/error.hpp"
#include "io/target/naming.hpp"
#include "system/system_reason.hpp"
#include "system/uninterrupted.hpp"

namespace attn::io {
namespace {

constexpr mode_t private_mode = 0600;
constexpr mode_t usual_mode = 0666;  // before the umask

/// The prefix of the temporary, ".out.h5.", shortened if its name would exceed the limit for names.
std::string prefix_for(const std::string& name) {
  constexpr std::size_t room = NAME_MAX - sizeof("..XXXXXX.tmp");
  return "." + name.substr(0, room) + ".";
}

/// rename(2) that never replaces a file; returns false with errno set if it fails.
bool rename_without_replacing(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return false;
  // File systems without this flag usually support hard links.
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0;
  if (errno == EEXIST) return false;
  struct stat status {};
  if (lstat(to.c_str(), &status) == 0) {
    errno = EEXIST;
    return false;
  }
  return rename(from.c_str(), to.c_str()) == 0;
}

/// Makes the new name survive a crash. Best effort: the content is safe already, and some folders
/// cannot be opened or synchronised.
void synchronise_folder(const std::string& folder) noexcept {
  const Descriptor descriptor = open_descriptor(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor) fsync(descriptor.get());
}

}  // namespace

void refuse_existing(const std::string& description) {
  throw Error(Failure::output, description + " exists", "replace it with --force");
}

FileTarget::FileTarget(std::string description, std::string path, std::optional<unsigned> mode,
                       bool replace)
    : Target(std::move(description)), path_(std::move(path)), mode_(mode), replace_(replace) {
  const std::size_t slash = path_.rfind('/');
  folder_ = slash == std::string::npos ? "." : path_.substr(0, slash == 0 ? 1 : slash);
  const std::string name = slash == std::string::npos ? path_ : path_.substr(slash + 1);
  if (name.empty()) refuse(EISDIR);
  name_ = make_temporary(folder_, prefix_for(name), [&](const std::string& temporary) {
    descriptor_ =
        open_descriptor(temporary, O_RDWR | O_CREAT | O_EXCL, mode_ ? private_mode : usual_mode);
    return static_cast<bool>(descriptor_);
  });
  if (!descriptor_ && errno == ENOENT) {
    throw Error(Failure::output, "cannot write " + this->description() + ": no folder " + folder_);
  }
  if (!descriptor_) refuse(errno);
}

void FileTarget::refuse(int error_number) const {
  if (error_number == EEXIST) refuse_existing(description());
  throw Error(Failure::output,
              "cannot write " + description() + ": " + system_reason(error_number));
}

void FileTarget::with_path(const std::function<void(const std::string&)>& open) {
  open(name_.path());
}

void FileTarget::make_durable() {
  if (mode_ && fchmod(descriptor_.get(), static_cast<mode_t>(*mode_)) != 0) refuse(errno);
  // EINVAL: the file system does not support fsync.
  if (fsync(descriptor_.get()) != 0 && errno != EINVAL && errno != ENOTSUP) refuse(errno);
}

void FileTarget::take_name() {
  const Uninterrupted section;
  const bool taken = replace_ ? rename(name_.path().c_str(), path_.c_str()) == 0
                              : rename_without_replacing(name_.path(), path_);
  if (!taken) refuse(errno);
  name_.release();
  keep_besides();
}

void FileTarget::finish() {
  try {
    make_durable();
    take_name();
  } catch (...) {
    discard();
    throw;
  }
  synchronise_folder(folder_);
  descriptor_.reset();
}

void FileTarget::discard() noexcept {
  name_.remove();
  if (descriptor_ && ftruncate(descriptor_.get(), 0) != 0) {
    // The space is freed when the process ends.
  }
  descriptor_.reset();
}

}  // namespace attn::io
