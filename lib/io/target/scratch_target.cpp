#include "io/target/scratch_target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"

namespace attn::io {

ScratchTarget::ScratchTarget(std::string description, const std::string& folder)
    : Target(std::move(description)) {
  name_ = make_temporary(folder, ".attn.", [&](const std::string& path) {
    descriptor_ = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    return static_cast<bool>(descriptor_);
  });
  if (descriptor_) return;
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
    // It is freed when the process ends.
  }
  descriptor_.reset();
}

}  // namespace attn::io
