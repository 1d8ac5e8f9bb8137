#include "common/frame/text_input.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"
#include "system/descriptor.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

// Whether the name is one of a descriptor that the process already has, such as <(…) in a shell.
bool is_open_already(const std::string& file) {
  return file == "/dev/stdin" || file.starts_with("/dev/fd/") || file.starts_with("/proc/self/fd/");
}

// Null: the file can be read.
const char* other_kind(const std::string& file, mode_t mode) {
  if (S_ISREG(mode) || (S_ISFIFO(mode) && is_open_already(file))) return nullptr;
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

[[noreturn]] void refuse_kind(const std::string& file, const char* kind,
                              const std::string& expected) {
  throw Error(Failure::input, file + " is " + kind + ", expected " + expected);
}

Descriptor open_text(const std::string& file, const std::string& expected) {
  // Opening a pipe, a socket or a device can wait forever or have side effects.
  struct stat status {};
  if (stat(file.c_str(), &status) == 0) {
    if (const char* const kind = other_kind(file, status.st_mode)) {
      refuse_kind(file, kind, expected);
    }
  }
  Descriptor descriptor = open_descriptor(file, O_RDONLY | O_NOCTTY);
  if (descriptor) return descriptor;
  if (errno == ENOENT) throw Error(Failure::input, "no such file: " + file);
  throw Error(Failure::input, "cannot open " + file + ": " + system_reason(errno));
}

}  // namespace

std::string read_text(const std::string& file, std::size_t most_bytes,
                      const std::string& expected) {
  const Descriptor descriptor = open_text(file, expected);
  std::string text;
  struct stat status {};
  fstat(descriptor.get(), &status);
  constexpr std::size_t piece = std::size_t{1} << 16;
  text.reserve(std::min(static_cast<std::size_t>(status.st_size), most_bytes) + piece);
  for (std::size_t got = 0;;) {
    text.resize(got + piece);
    const ssize_t more = read(descriptor.get(), text.data() + got, piece);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) {
      throw Error(Failure::input, file + " cannot be read: " + system_reason(errno));
    }
    got += static_cast<std::size_t>(more);
    text.resize(got);
    if (more == 0) return text;
    if (got > most_bytes) {
      throw Error(Failure::input, file + " is larger than " +
                                      bytes_text(static_cast<double>(most_bytes)) + ", expected " +
                                      expected);
    }
  }
}

}  // namespace attn::tools
