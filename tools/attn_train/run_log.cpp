#include "attn_train/run_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "attnkit/error.hpp"
#include "cli/terminal.hpp"
#include "common/text_input.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_log_bytes = std::size_t{4} << 30;

[[noreturn]] void fail_log(const std::string& file) {
  throw Error(Failure::output, file + ": " + system_reason(errno));
}

// The length of the first `lines` lines, or of those that there are.
struct Beginning {
  std::size_t bytes = 0;
  Index lines = 0;
};

Beginning beginning_of(const std::string& text, Index lines) {
  Beginning kept;
  while (kept.lines < lines) {
    const std::size_t end = text.find('\n', kept.bytes);
    if (end == std::string::npos) break;
    kept.bytes = end + 1;
    ++kept.lines;
  }
  return kept;
}

}  // namespace

RunLog::RunLog(const std::string& file, Index lines, bool force) : file_(file) {
  lines_ = std::max<Index>(lines, 1);
  kept_ = file.empty() ? lines_ : 0;
  if (file.empty()) return;
  struct stat status = {};
  const bool exists = stat(file.c_str(), &status) == 0;
  const bool regular = !exists || S_ISREG(status.st_mode);
  if (exists && regular && status.st_size > 0 && lines == 0 && !force) {
    throw Error(Failure::output, file + " exists, and this run is new",
                "--force starts it anew and replaces both, or choose another --log");
  }
  const int flags = O_WRONLY | O_APPEND | (regular ? O_CREAT : 0);
  descriptor_ = open_descriptor(file, flags, 0666);
  if (!descriptor_) fail_log(file);
  if (!regular) return;
  Beginning kept;
  if (exists && lines > 0) kept = beginning_of(read_text(file, most_log_bytes, "a log"), lines);
  kept_ = kept.lines;
  if (ftruncate(descriptor_.get(), static_cast<off_t>(kept.bytes)) != 0) fail_log(file);
}

void RunLog::begin(const nlohmann::ordered_json& header) {
  if (kept_ == 0) write(header);
}

void RunLog::add(const nlohmann::ordered_json& line) {
  ++lines_;
  if (!file_.empty()) write(line);
}

void RunLog::write(const nlohmann::ordered_json& line) const {
  using Handler = nlohmann::ordered_json::error_handler_t;
  cli::write_all(descriptor_.get(), line.dump(-1, ' ', false, Handler::replace) + "\n", file_);
}

}  // namespace attn::tools
