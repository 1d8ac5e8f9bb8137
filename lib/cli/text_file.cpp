#include "cli/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>

#include "attnkit/error.hpp"
#include "cli/terminal.hpp"
#include "cli/values.hpp"
#include "system/replacement.hpp"
#include "system/system_reason.hpp"
#include "system/uninterrupted.hpp"

namespace attn::cli {
namespace {

[[noreturn]] void fail(const std::string& subject, int error) {
  throw Error(Failure::output, subject + ": " + system_reason(error));
}

// The descriptor that a name such as /dev/stderr or /dev/fd/3 denotes. A file behind it that is
// opened by this name would be overwritten from its beginning.
std::optional<int> named_descriptor(const std::string& file) {
  if (file == "/dev/stdout") return STDOUT_FILENO;
  if (file == "/dev/stderr") return STDERR_FILENO;
  for (const std::string prefix : {"/dev/fd/", "/proc/self/fd/"}) {
    if (file.rfind(prefix, 0) != 0) continue;
    const std::optional<Index> number = to_integer(file.substr(prefix.size()));
    if (number && *number >= 0 && *number < 1 << 20) return static_cast<int>(*number);
  }
  return std::nullopt;
}

// A symbolic link is kept: the file that it points to is replaced.
std::string behind_links(const std::string& file) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(file.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : file;
}

bool is_regular_or_new(const std::string& file) {
  struct stat status = {};
  return stat(file.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

// The permissions of the file, or of a new one.
mode_t mode_of(const std::string& target) {
  struct stat status = {};
  if (stat(target.c_str(), &status) == 0) return status.st_mode & 07777U;
  const mode_t mask = umask(0);
  umask(mask);
  return 0666U & ~mask;
}

void fill(Replacement& temporary, const std::string& text, const std::string& target,
          const std::string& subject) {
  if (temporary.descriptor() < 0) fail(subject, errno);
  write_all(temporary.descriptor(), text, subject);
  if (fchmod(temporary.descriptor(), mode_of(target)) != 0 || fsync(temporary.descriptor()) != 0) {
    fail(subject, errno);
  }
}

void replace_file(const std::string& text, const std::string& file, const std::string& subject,
                  const std::function<void()>& before_end) {
  const std::string target = behind_links(file);
  Replacement temporary(target);
  fill(temporary, text, target, subject);
  const bool named = before_end ? temporary.take_name_for_now() : temporary.take_name();
  if (!named) fail(subject, errno);
  if (!before_end) return;
  before_end();
  const Uninterrupted section;
  keep_replacement();
}

void write_stream(const std::string& text, const std::string& file, const std::string& subject) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) fail(subject, errno);
  try {
    write_all(descriptor, text, subject);
  } catch (...) {
    close(descriptor);
    throw;
  }
  if (close(descriptor) != 0) fail(subject, errno);
}

}  // namespace

void write_text(const std::string& text, const std::string& destination, const std::string& option,
                const std::function<void()>& before_end) {
  const std::string subject = "--" + option + "=" + destination;
  const bool is_file =
      !destination.empty() && !named_descriptor(destination) && is_regular_or_new(destination);
  if (is_file) return replace_file(text, destination, subject, before_end);
  if (before_end) before_end();
  if (destination.empty()) {
    write_all(STDOUT_FILENO, text, "standard output");
  } else if (const std::optional<int> descriptor = named_descriptor(destination)) {
    write_all(*descriptor, text, subject);
  } else {
    write_stream(text, destination, subject);
  }
}

bool write_new_text(const std::string& text, const std::string& file, const std::string& option) {
  const std::string subject = "--" + option + "=" + file;
  Replacement temporary(file);
  fill(temporary, text, file, subject);
  if (temporary.take_name(false)) return true;
  if (errno != EEXIST) fail(subject, errno);
  return false;
}

void check_text_destination(const std::string& destination, const std::string& option) {
  const std::string subject = "--" + option + "=" + destination;
  if (destination.empty() || named_descriptor(destination)) return;
  struct stat status = {};
  if (stat(destination.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) fail(subject, EISDIR);
  if (!is_regular_or_new(destination)) return;
  if (Replacement(behind_links(destination)).descriptor() < 0) fail(subject, errno);
}

}  // namespace attn::cli
