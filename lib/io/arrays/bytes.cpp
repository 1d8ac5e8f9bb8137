#include "io/arrays/bytes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"

namespace attn::io {

void FileBytes::read(Index offset, Index count, void* out) const {
  constexpr Index most_per_call = Index{1} << 30;
  auto* to = static_cast<char*>(out);
  for (Index done = 0; done < count;) {
    const auto wanted = static_cast<std::size_t>(std::min(count - done, most_per_call));
    const ssize_t got = pread(descriptor_.get(), to + done, wanted, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(Failure::input, label_ + " cannot be read: " + system_reason(errno));
    }
    if (got == 0) throw Error(Failure::input, label_ + " was cut short while it was read");
    done += got;
  }
}

}  // namespace attn::io
