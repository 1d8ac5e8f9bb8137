#include "cli/terminal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "attnkit/error.hpp"
#include "system/descriptor.hpp"
#include "system/system_reason.hpp"

namespace attn::cli {
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

void write_all(int descriptor, std::string_view text, const std::string& destination) {
  const int error = write_fully(descriptor, text.data(), text.size());
  if (error != 0) throw Error(Failure::output, destination + ": " + system_reason(error));
}

void write_error(std::string_view text) noexcept {
  write_fully(STDERR_FILENO, text.data(), text.size());
}

void secure_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // With the access reversed, so that reading or writing fails. open() takes the lowest free
    // number, which is this one.
    const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != descriptor && opened >= 0) close(opened);
  }
}

}  // namespace attn::cli
