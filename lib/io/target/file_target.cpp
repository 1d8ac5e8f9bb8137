#include "io/target/file_target.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "attnkit/error.hpp"
#include "system/held_temporary.hpp"
#include "system/paths.hpp"
#include "system/replacement.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

constexpr mode_t private_mode = 0600;
constexpr mode_t usual_mode = 0666;  // before the umask

/// Makes the new name survive a crash, too. Best effort: the content is safe already, and some
/// folders cannot be opened or synchronised.
void synchronise_folder(const std::string& folder) noexcept {
  const Descriptor descriptor = open_descriptor(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor) fsync(descriptor.get());
}

}  // namespace

void refuse_existing(const std::string& description) {
  throw Error(Failure::output, description + " exists", "replace it with --force");
}

void refuse_second_writer(const std::string& description) {
  throw Error(Failure::output, description + " is being written by another process");
}

FileTarget::FileTarget(std::string description, std::string path, std::optional<unsigned> mode,
                       bool replace)
    : Target(std::move(description)),
      path_(std::move(path)),
      folder_(folder_of(path_)),
      mode_(mode),
      replace_(replace) {
  const std::string name = path_.substr(path_.rfind('/') + 1);
  if (name.empty()) refuse(EISDIR);
  descriptor_ = hold_temporary(folder_, name, mode_ ? private_mode : usual_mode, name_);
  if (!descriptor_ && errno == ENOENT) {
    // A shell would change or take apart other names.
    const bool plain = folder_.find_first_of(" \t\n'\"\\$`;&|<>()*?[]{}!~#") == std::string::npos;
    throw Error(Failure::output, "cannot write " + this->description() + ": no folder " + folder_,
                plain ? "mkdir -p " + folder_ : "");
  }
  if (!descriptor_) refuse(errno);
}

void FileTarget::refuse(int error_number) const {
  if (error_number == EEXIST) refuse_existing(description());
  if (error_number == EWOULDBLOCK) refuse_second_writer(description());
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

void FileTarget::finish() {
  try {
    make_durable();
    if (!take_name(name_, path_, replace_)) refuse(errno);
  } catch (...) {
    discard();
    throw;
  }
  // Readers of the new file must not find it locked.
  descriptor_.reset();
  synchronise_folder(folder_);
}

void FileTarget::discard() noexcept {
  name_.remove();
  if (descriptor_ && ftruncate(descriptor_.get(), 0) != 0) {
    // The space is freed when the process ends.
  }
  descriptor_.reset();
}

}  // namespace attn::io
