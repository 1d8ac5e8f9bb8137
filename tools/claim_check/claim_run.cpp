#include "claim_check/claim_run.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "claim_check/path_state.hpp"
#include "claim_check/shell_command.hpp"
#include "cli/terminal.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

// The number of bytes kept of a command's output.
constexpr std::streamoff most_log = 4000;

// The number of files that a failed claim shows.
constexpr std::size_t most_files = 20;

constexpr const char* log_file = "claim.log";

// The maximum count of numbers that a result keeps.
constexpr std::size_t most_found = 1U << 16U;

// The claim's own directory, removed at the end unless it is kept.
class Folder {
 public:
  Folder(const Claim& claim, const ClaimPlace& place)
      : keeps_(place.keeps), path_(fs::absolute(place.folder + "/" + claim.id).string()) {
    if (keeps_) mkdir(place.folder.c_str(), 0777);  // it may exist already
    if (mkdir(path_.c_str(), 0777) == 0) return;
    throw Error(Failure::output, path_ + ": " + system_reason(errno));
  }
  ~Folder() {
    std::error_code ignored;
    if (!keeps_) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  bool keeps_;
  std::string path_;
};

std::string log_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  const std::streamoff size = stream.tellg();
  stream.seekg(std::max<std::streamoff>(0, size - most_log));
  std::string text(static_cast<std::size_t>(std::min(size, most_log)), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

void require_run(const Claim& claim, const ShellOutcome& outcome) {
  if (outcome.timed_out) {
    throw Error(Failure::input, fmt::format("took more than {:g} seconds", claim.time_limit));
  }
  for (const int status : claim.status) {
    if (outcome.status == status) return;
  }
  throw Error(Failure::input, fmt::format("the command's exit status is {}, expected {}",
                                          outcome.status, fmt::join(claim.status, " or ")));
}

Values numbers_or_place(const std::variant<std::vector<double>, std::string>& given,
                        const Folder& folder, int status) {
  if (const auto* place = std::get_if<std::string>(&given)) {
    return values_at(*place, folder.path(), status);
  }
  return {std::get<std::vector<double>>(given), {}};
}

Measurement measurement_of(const Claim& claim, const Folder& folder, int status) {
  Measurement found;
  found.measured = claim.text.is_set() ? text_values(claim.text, claim.value, folder.path())
                                       : values_at(claim.value, folder.path(), status);
  if (claim.reduction) {
    found.measured.numbers = {reduce(*claim.reduction, found.measured.numbers)};
    found.measured.shape.reset();
    if (std::isnan(found.measured.numbers.front())) {
      throw Error(Failure::input, claim.value + ": no numbers to reduce");
    }
  }
  found.expected = numbers_or_place(claim.expected, folder, status);
  if (claim.test) found.against = numbers_or_place(claim.test->against, folder, status);
  if (claim.over) found.over = values_at(*claim.over, folder.path(), status);
  return found;
}

std::size_t size_of(const Measurement& found) {
  return found.measured.numbers.size() + found.expected.numbers.size() + found.over.numbers.size() +
         found.against.numbers.size();
}

void judge_into(const Claim& claim, Measurement found, ClaimResult& result) {
  result.verdict = judge(claim, found);
  result.moved = judge_moved(claim, found);
  result.test = test_outcome(claim, found);
  if (size_of(found) <= most_found) result.found = std::move(found);
}

// Files of the folder, with their sizes, sorted; the log is shown by itself.
std::vector<std::string> files_left(const Folder& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path(), failed)) {
    const std::string name = entry.path().filename().string();
    if (name == log_file) continue;
    const bool has_size = entry.is_regular_file(failed);
    files.push_back(cli::one_line(
        has_size ? fmt::format("{} ({})", name, bytes_text(static_cast<double>(entry.file_size())))
                 : name));
  }
  std::sort(files.begin(), files.end());
  if (files.size() > most_files) {
    files.resize(most_files);
    files.emplace_back("...");
  }
  return files;
}

// PATH, $CLAIMS, and a variable that keeps Python from leaving files beside those that it reads.
std::map<std::string, std::string> environment_of(const Claim& claim, const ClaimPlace& place) {
  const char* path = std::getenv("PATH");
  return {{"PATH", place.tools + ":" + (path == nullptr ? "/usr/bin:/bin" : path)},
          {"CLAIMS", folder_of(claim)},
          {"PYTHONDONTWRITEBYTECODE", "1"}};
}

// The trace of one command, removed after reading.
class Trace {
 public:
  Trace(const Claim& claim, const ClaimPlace& place) {
    if (place.traces.empty() || claim.alone) return;
    folder_ = place.traces + "/" + claim.id;
    fs::create_directory(folder_);
  }
  ~Trace() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  std::vector<std::string> words() const {
    return folder_.empty() ? std::vector<std::string>() : tracing_words(prefix());
  }
  std::optional<CommandReads> reads(const std::string& folder, const ClaimPlace& place) const {
    if (folder_.empty()) return std::nullopt;
    return read_trace(prefix(), folder, fs::absolute(place.folder).string());
  }

 private:
  std::string prefix() const { return folder_ + "/trace"; }

  std::string folder_;
};

// Files behind the numbers were read by this process.
void add_sources(const Measurement& found, CommandReads& reads) {
  for (const Values* values : {&found.measured, &found.expected, &found.over, &found.against}) {
    for (const std::string& file : values->sources) {
      reads.looks[file] = {.opened = true, .found = true};
    }
  }
}

ShellCommand command_of(const Claim& claim, const ClaimPlace& place, const Folder& folder) {
  ShellCommand command;
  command.command = claim.command;
  command.directory = folder.path();
  command.errors = folder.file(log_file);
  if (claim.value == stdout_file) command.output = folder.file(stdout_file);
  command.time_limit = claim.time_limit;
  command.environment = environment_of(claim, place);
  command.environment["ATTN_NUM_THREADS"] = std::to_string(place.threads);
  command.environment["HOME"] = folder.path();
  command.environment["TMPDIR"] = folder.path();
  return command;
}

}  // namespace

bool as_expected(const Claim& claim, const ClaimResult& result) {
  return result.ran() && result.verdict.holds != claim.refuted;
}

std::optional<double> headroom(const Claim& claim, const ClaimResult& result) {
  if (!result.ran()) return std::nullopt;
  const double unit = headroom_unit(claim.criterion, result.verdict);
  // Not -0.
  const double margin = claim.refuted ? 0 - result.verdict.margin : result.verdict.margin;
  const double found = margin / unit;
  return unit > 0 && std::isfinite(found) ? std::optional(found) : std::nullopt;
}

std::string again_text(const Claim& claim, const std::string& tools) {
  // A line of the command may equal the word that ends the document.
  std::string end = "CLAIM";
  while (("\n" + claim.command + "\n").find("\n" + end + "\n") != std::string::npos) end += "_";
  std::string command = claim.command;
  if (!command.ends_with('\n')) command += "\n";
  return fmt::format(
      "cd \"$(mktemp -d)\" && export CLAIMS={} PATH={}:\"$PATH\"\n"
      "cat >claim.sh <<'{}'\n{}{}\n"
      "bash -e -o pipefail claim.sh </dev/null\n",
      cli::shell_quoted(folder_of(claim)), cli::shell_quoted(tools), end, command, end);
}

ClaimResult known_result(const Claim& claim, Measurement found, double seconds) {
  ClaimResult result;
  result.seconds = seconds;
  result.cached = true;
  try {
    judge_into(claim, std::move(found), result);
  } catch (const Error& error) {
    result.error = cli::one_line(error.what());
  }
  return result;
}

std::vector<std::string> known_environment(const Claim& claim, const ClaimPlace& place) {
  std::vector<std::string> all = shell_environment(environment_of(claim, place));
  std::erase_if(all, [](const std::string& line) {
    return line.starts_with("HOME=") || line.starts_with("TMPDIR=") ||
           line.starts_with("ATTN_NUM_THREADS=");
  });
  std::sort(all.begin(), all.end());
  return all;
}

ClaimResult run_claim(const Claim& claim, const ClaimPlace& place) {
  const Folder folder(claim, place);
  const Trace trace(claim, place);
  ClaimResult result;
  ShellCommand command = command_of(claim, place, folder);
  command.before = trace.words();
  const std::int64_t start = file_time_now();
  const ShellOutcome outcome = run_shell(command);
  result.seconds = outcome.seconds;
  result.log = log_of(command.errors);
  try {
    require_run(claim, outcome);
    Measurement found = measurement_of(claim, folder, outcome.status);
    if ((result.reads = trace.reads(folder.path(), place))) {
      result.reads->start = start;
      add_sources(found, *result.reads);
    }
    judge_into(claim, std::move(found), result);
  } catch (const Error& error) {
    result.error = cli::one_line(error.what());
  }
  if (!as_expected(claim, result)) result.files = files_left(folder);
  return result;
}

}  // namespace attn::tools
