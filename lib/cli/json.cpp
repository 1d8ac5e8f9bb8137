#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "cli/parse.hpp"
#include "cli/report_impl.hpp"
#include "cli/terminal.hpp"
#include "cli/values.hpp"
#include "tensor/error.hpp"

namespace attn::cli {
namespace {

// VmHWM, the peak of this program; ru_maxrss also counts what ran in the process before exec.
std::int64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atoll(line.c_str() + 6) * 1024;
  }
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

[[noreturn]] void fail(const std::string& file, int error) {
  throw Error(Failure::output, "--json=" + file + ": " + system_reason(error));
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
      : name_(folder + "/.attn-json-XXXXXX"),
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

// A link stays a link: what it points to is what is replaced.
std::string behind_links(const std::string& file) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(file.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : file;
}

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : file.substr(0, slash);
}

bool is_regular_or_new(const std::string& file) {
  struct stat status = {};
  return stat(file.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

void replace_file(const std::string& text, const std::string& file,
                  const std::function<void()>& before_end) {
  const std::string target = behind_links(file);
  Temporary temporary(folder_of(target));
  if (temporary.descriptor() < 0) fail(file, errno);
  struct stat status = {};
  mode_t mode = 0;
  if (stat(target.c_str(), &status) == 0) {
    mode = status.st_mode & 07777U;
  } else {
    mode = umask(0);
    umask(mode);
    mode = 0666U & ~mode;
  }
  write_all(temporary.descriptor(), text, "--json=" + file);
  if (fchmod(temporary.descriptor(), mode) != 0 || fsync(temporary.descriptor()) != 0) {
    fail(file, errno);
  }
  if (before_end) before_end();
  if (!temporary.take_name(target)) fail(file, errno);
}

// Indented, except for arrays of numbers, words and the like, which are one line each: shapes and
// histograms would take a screen otherwise.
void append(const nlohmann::ordered_json& json, std::size_t indent, std::string& text) {
  const bool nested =
      std::any_of(json.begin(), json.end(), [](const auto& item) { return item.is_structured(); });
  if (json.empty() || !json.is_structured() || (json.is_array() && !nested)) {
    // File names need not be UTF-8, JSON must be.
    text += json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return;
  }
  const char* separator = "";
  text += json.is_object() ? '{' : '[';
  for (const auto& [key, value] : json.items()) {
    text += separator;
    text += '\n';
    text.append(indent + 2, ' ');
    if (json.is_object()) {
      append(key, 0, text);
      text += ": ";
    }
    append(value, indent + 2, text);
    separator = ",";
  }
  text += '\n';
  text.append(indent, ' ');
  text += json.is_object() ? '}' : ']';
}

void write_stream(const std::string& text, const std::string& file) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) fail(file, errno);
  try {
    write_all(descriptor, text, "--json=" + file);
  } catch (...) {
    close(descriptor);
    throw;
  }
  if (close(descriptor) != 0) fail(file, errno);
}

}  // namespace

std::string json_text(const Report::Impl& report, int outcome, const Failed* failed,
                      double wall_seconds, int threads) {
  nlohmann::ordered_json json;
  json["schema"] = "attnkit/1";
  json["tool"] = report.tool;
  json["version"] = version();
  if (!report.status.empty()) {
    json["status"] = report.status;
  } else {
    json["status"] = failed != nullptr ? "error" : outcome == 0 ? "ok" : "no";
  }
  if (failed != nullptr) {
    json["error"] = {{"message", failed->message}, {"hint", failed->hint}, {"exit", failed->exit}};
  }
  json["inputs"] = report.inputs;
  json["outputs"] = report.outputs;
  json["params"] = report.params;
  json["result"] = report.result;
  json["runtime"] = {{"wall_s", wall_seconds},
                     {"compute_s", report.compute_seconds},
                     {"peak_rss_bytes", peak_rss_bytes()},
                     {"threads", threads}};
  json["warnings"] = report.warnings;
  std::string text;
  append(json, 0, text);
  return text + "\n";
}

void write_json(const std::string& text, const std::string& destination,
                const std::function<void()>& before_end) {
  const bool is_file =
      !destination.empty() && !named_descriptor(destination) && is_regular_or_new(destination);
  if (is_file) return replace_file(text, destination, before_end);
  if (before_end) before_end();
  if (destination.empty()) {
    write_all(STDOUT_FILENO, text, "standard output");
  } else if (const std::optional<int> descriptor = named_descriptor(destination)) {
    write_all(*descriptor, text, "--json=" + destination);
  } else {
    write_stream(text, destination);
  }
}

void check_json_destination(const std::string& destination) {
  if (destination.empty() || named_descriptor(destination)) return;
  struct stat status = {};
  if (stat(destination.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) fail(destination, EISDIR);
  if (!is_regular_or_new(destination)) return;
  if (Temporary(folder_of(behind_links(destination))).descriptor() < 0) fail(destination, errno);
}

}  // namespace attn::cli
