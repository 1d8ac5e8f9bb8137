#include "io/target/stream_target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"

namespace attn::io {

StreamTarget::StreamTarget(const std::string& tmpdir)
    : Target("standard output"), temporary_(temporary_folder(tmpdir)) {
  if (fcntl(STDOUT_FILENO, F_GETFD) < 0) refuse(errno);
  require_no_terminal(STDOUT_FILENO);
}

StreamTarget::StreamTarget(const std::string& path, bool is_fifo, const std::string& tmpdir)
    : Target(path), path_(path), temporary_(temporary_folder(tmpdir)) {
  if (is_fifo) {
    if (access(path_.c_str(), W_OK) != 0) refuse(errno);
    return;
  }
  opened_ = open_descriptor(path_, O_WRONLY | O_NOCTTY);
  if (!opened_) refuse(errno);
  require_no_terminal(opened_.get());
}

void StreamTarget::require_no_terminal(int descriptor) const {
  if (isatty(descriptor) == 0) return;
  throw Error(Failure::usage, "will not write the output to a terminal",
              "name a file with -o, or pipe into a command");
}

void StreamTarget::refuse(int error_number) const {
  throw Error(Failure::output,
              "cannot write " + description() + ": " + system_reason(error_number));
}

void StreamTarget::with_path(const std::function<void(const std::string&)>& open) {
  temporary_.with_name(open);
}

void StreamTarget::flow_into(int descriptor) {
  if (lseek(temporary_.descriptor(), 0, SEEK_SET) != 0) refuse(errno);
  std::size_t bytes = 0;
  const CopyFailure failure = copy_to_end(temporary_.descriptor(), descriptor, bytes);
  if (failure.error_number != 0) refuse(failure.error_number);
  // Some file systems report a failed write only when a descriptor is closed.
  const int copy = dup(descriptor);
  if (copy >= 0 && close(copy) != 0 && errno != EINTR) refuse(errno);
}

void StreamTarget::finish() {
  if (path_.empty()) return flow_into(STDOUT_FILENO);
  if (!opened_) opened_ = open_descriptor(path_, O_WRONLY | O_NOCTTY);
  if (!opened_) refuse(errno);
  flow_into(opened_.get());
  opened_.reset();
}

void StreamTarget::discard() noexcept {
  if (ftruncate(temporary_.descriptor(), 0) != 0) {
    // The space is freed when the process ends.
  }
}

}  // namespace attn::io
