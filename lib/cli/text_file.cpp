#include "cli/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "cli/terminal.hpp"
#include "cli/values.hpp"
#include "tensor/error.hpp"

namespace attn::cli {
namespace {

[[noreturn]] void fail(const std::string& subject, int error) {
  throw Error(Failure::output, subject + ": " + system_reason(error));
}

// The descriptor that a name such as /dev/stderr or /dev/fd/3 stands for. Opened by name, a file
// behind it would be written from its beginning, over what has been written to it before.
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

// A file that has no name until it takes that of its target; where the file system has no such
// files, one that is removed unless it takes it.
class Temporary {
 public:
  explicit Temporary(const std::string& folder)
      : name_(folder + "/.attn-text-XXXXXX"),
        descriptor_(open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)) {
    if (descriptor_ >= 0 && access(own_link().c_str(), F_OK) == 0) return;
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = mkostemp(name_.data(), O_CLOEXEC);
    named_ = descriptor_ >= 0;
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (named_) unlink(name_.c_str());
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

  // False, with errno set, where it fails.
  bool take_name(const std::string& target) {
    if (!named_ && !take_free_name()) return false;
    named_ = rename(name_.c_str(), target.c_str()) != 0;
    return !named_;
  }

 private:
  // rename(2) replaces a target, which linkat(2) cannot.
  bool take_free_name() {
    const int placeholder = mkostemp(name_.data(), O_CLOEXEC);
    if (placeholder < 0) return false;
    close(placeholder);
    unlink(name_.c_str());
    named_ = linkat(AT_FDCWD, own_link().c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    return named_;
  }

  std::string own_link() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  std::string name_;
  int descriptor_ = -1;
  bool named_ = false;
};

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : file.substr(0, slash);
}

// A text that has taken its name before what goes with it is complete. Read by signal handlers.
struct Provisional {
  std::atomic<bool> there{false};
  std::array<char, PATH_MAX> target{};
  std::array<char, PATH_MAX> old{};  // the name under which the file of before is kept; or empty
};
Provisional provisional;

bool keep_path(const std::string& path, std::array<char, PATH_MAX>& copy) {
  if (path.size() >= copy.size()) return false;
  std::copy_n(path.c_str(), path.size() + 1, copy.begin());
  return true;
}

// Gives the file of before a second name beside it: undo_texts() brings it back from there. False
// where that cannot be.
bool keep_old(const std::string& target) {
  std::string name = folder_of(target) + "/.attn-text-XXXXXX";
  if (!keep_path(target, provisional.target)) return false;
  if (access(target.c_str(), F_OK) != 0) {
    provisional.old.front() = '\0';
    return true;
  }
  const int placeholder = mkostemp(name.data(), O_CLOEXEC);
  if (placeholder < 0) return false;
  close(placeholder);
  unlink(name.c_str());
  return keep_path(name, provisional.old) && link(target.c_str(), name.c_str()) == 0;
}

void forget_old() noexcept {
  if (provisional.old.front() != '\0') unlink(provisional.old.data());
}

// A link stays a link: what it points to is what is replaced.
std::string behind_links(const std::string& file) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(file.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : file;
}

bool is_regular_or_new(const std::string& file) {
  struct stat status = {};
  return stat(file.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

// Both, or none: the text takes its name, and gives it back where `end` fails.
void end_together(Temporary& temporary, const std::string& target, const std::string& subject,
                  const std::function<void()>& end) {
  if (!keep_old(target)) {
    end();
    if (!temporary.take_name(target)) fail(subject, errno);
    return;
  }
  if (!temporary.take_name(target)) {
    const int error = errno;
    forget_old();
    fail(subject, error);
  }
  provisional.there = true;
  try {
    end();
  } catch (...) {
    undo_texts();
    throw;
  }
  provisional.there = false;
  forget_old();
}

void replace_file(const std::string& text, const std::string& file, const std::string& subject,
                  const std::function<void()>& before_end) {
  const std::string target = behind_links(file);
  Temporary temporary(folder_of(target));
  if (temporary.descriptor() < 0) fail(subject, errno);
  struct stat status = {};
  mode_t mode = 0;
  if (stat(target.c_str(), &status) == 0) {
    mode = status.st_mode & 07777U;
  } else {
    mode = umask(0);
    umask(mode);
    mode = 0666U & ~mode;
  }
  write_all(temporary.descriptor(), text, subject);
  if (fchmod(temporary.descriptor(), mode) != 0 || fsync(temporary.descriptor()) != 0) {
    fail(subject, errno);
  }
  if (!before_end) {
    if (!temporary.take_name(target)) fail(subject, errno);
    return;
  }
  end_together(temporary, target, subject, before_end);
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

void undo_texts() noexcept {
  if (!provisional.there.exchange(false)) return;
  if (provisional.old.front() == '\0') {
    unlink(provisional.target.data());
  } else {
    rename(provisional.old.data(), provisional.target.data());
  }
}

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

void check_text_destination(const std::string& destination, const std::string& option) {
  const std::string subject = "--" + option + "=" + destination;
  if (destination.empty() || named_descriptor(destination)) return;
  struct stat status = {};
  if (stat(destination.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) fail(subject, EISDIR);
  if (!is_regular_or_new(destination)) return;
  if (Temporary(folder_of(behind_links(destination))).descriptor() < 0) fail(subject, errno);
}

}  // namespace attn::cli
