#include "system/descriptor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace attn {

void Descriptor::reset() noexcept {
  // Not retried on EINTR: Linux has already released the number.
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

Descriptor open_descriptor(const std::string& path, int flags, unsigned mode) {
  int descriptor = -1;
  do {
    descriptor = open(path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(mode));
  } while (descriptor < 0 && errno == EINTR);
  return Descriptor(descriptor);
}

namespace {

/// Whether to retry a failed read or write. The process at the other end of a pipe may have made it
/// non-blocking.
bool again(int descriptor, short events) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
  pollfd waiting{descriptor, events, 0};
  return poll(&waiting, 1, -1) >= 0 || errno == EINTR;
}

constexpr int copied_at_once = 1 << 20;

/// Lets a pipe hold more at once, so that its two processes wait for each other less often. Other
/// files, and pipes that may not grow, stay as they are.
void widen_pipe(int descriptor) {
  if (fcntl(descriptor, F_GETPIPE_SZ) < copied_at_once) {
    fcntl(descriptor, F_SETPIPE_SZ, copied_at_once);
  }
}

}  // namespace

int write_fully(int descriptor, const char* data, std::size_t count) noexcept {
  for (std::size_t done = 0; done < count;) {
    const ssize_t put = write(descriptor, data + done, count - done);
    if (put >= 0) {
      done += static_cast<std::size_t>(put);
    } else if (!again(descriptor, POLLOUT)) {
      return errno;
    }
  }
  return 0;
}

CopyFailure copy_to_end(int from, int to, std::size_t& copied) {
  widen_pipe(from);
  widen_pipe(to);
  std::vector<char> buffer(copied_at_once);
  for (;;) {
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got == 0) return {};
    if (got < 0) {
      if (again(from, POLLIN)) continue;
      return {errno, false};
    }
    const int error_number = write_fully(to, buffer.data(), static_cast<std::size_t>(got));
    if (error_number != 0) return {error_number, true};
    copied += static_cast<std::size_t>(got);
  }
}

}  // namespace attn
