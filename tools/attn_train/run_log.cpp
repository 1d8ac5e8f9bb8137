#include "attn_train/run_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "attn_train/recipe_keys.hpp"
#include "attnkit/error.hpp"
#include "cli/terminal.hpp"
#include "cli/words.hpp"
#include "common/frame/text_input.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_log_bytes = std::size_t{4} << 30;

[[noreturn]] void fail_log(const std::string& file) {
  throw Error(Failure::output, file + ": " + system_reason(errno));
}

// A header without the names of files, which may differ when a run resumes.
Json essence(Json header) {
  if (!header.is_object() || !header.contains("recipe")) return nullptr;
  for (const RecipeKey& key : recipe_keys()) {
    if (key.kind == RecipeKey::Kind::file) header["recipe"].erase(key.name);
  }
  return header;
}

// The length of the header and the lines up to a step; 0 if the text does not begin with `header`.
std::size_t own_beginning(const std::string& text, const Json& header, Index steps) {
  std::size_t kept = 0;
  for (std::size_t end = 0; (end = text.find('\n', kept)) != std::string::npos; kept = end + 1) {
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(kept),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (kept == 0) {
      if (line.is_discarded() || essence(line) != essence(header)) return 0;
    } else if (!line.is_object() || line.value("step", Index{-1}) > steps) {
      break;
    }
  }
  return kept;
}

}  // namespace

RunLog::RunLog(const std::string& file, const Json& header, std::optional<Index> steps, bool force)
    : file_(file), header_(header) {
  if (file.empty()) return;
  struct stat status = {};
  const bool exists = stat(file.c_str(), &status) == 0;
  const bool regular = !exists || S_ISREG(status.st_mode);
  std::size_t kept = 0;
  if (exists && regular && status.st_size > 0 && !force) {
    if (!steps) {
      throw Error(Failure::output, file + " exists, and this run is new",
                  "--force starts it anew and replaces both, or choose another --log");
    }
    kept = own_beginning(read_text(file, most_log_bytes, "a log"), header, *steps);
    if (kept == 0) {
      throw Error(Failure::output, file + " exists and is not the log of this run",
                  "choose another --log");
    }
  }
  descriptor_ = open_descriptor(file, O_WRONLY | O_APPEND | (regular ? O_CREAT : 0), 0666);
  if (!descriptor_) fail_log(file);
  has_header_ = kept > 0;
  if (regular && ftruncate(descriptor_.get(), static_cast<off_t>(kept)) != 0) fail_log(file);
}

void RunLog::begin() {
  if (!has_header_) add(header_);
  has_header_ = true;
}

void RunLog::add(const Json& line) const {
  if (file_.empty()) return;
  using Handler = Json::error_handler_t;
  cli::write_all(descriptor_.get(),
                 cli::printing_json(line.dump(-1, ' ', false, Handler::replace)) + "\n", file_);
}

}  // namespace attn::tools
