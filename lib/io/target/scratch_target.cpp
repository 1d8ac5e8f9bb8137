#include "io/target/scratch_target.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "attnkit/error.hpp"
#include "io/target/file_target.hpp"
#include "system/held_temporary.hpp"
#include "system/system_reason.hpp"

namespace attn::io {

ScratchTarget::ScratchTarget(std::string description, const std::string& folder,
                             const std::string& name)
    : Target(std::move(description)) {
  constexpr mode_t private_mode = 0600;
  if (name.empty()) {
    name_ = make_temporary(folder, ".attn.", [&](const std::string& path) {
      descriptor_ = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, private_mode);
      return static_cast<bool>(descriptor_);
    });
  } else {
    descriptor_ = hold_temporary(folder, name + ".contents", private_mode, name_);
  }
  if (descriptor_) return;
  if (errno == EWOULDBLOCK) refuse_second_writer(this->description());
  throw Error(Failure::output, "cannot make a temporary file for " + this->description() + " in " +
                                   folder + ": " + system_reason(errno));
}

void ScratchTarget::with_path(const std::function<void(const std::string&)>& open) {
  open(name_.path());
}

void ScratchTarget::finish() { throw std::logic_error("a temporary has no destination"); }

void ScratchTarget::discard() noexcept {
  name_.remove();
  // Frees the space even if HDF5 still has the file open.
  if (descriptor_ && ftruncate(descriptor_.get(), 0) != 0) {
    // The space is freed when the process ends.
  }
  descriptor_.reset();
}

}  // namespace attn::io
