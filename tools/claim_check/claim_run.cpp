#include "claim_check/claim_run.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "claim_check/shell_command.hpp"
#include "cli/terminal.hpp"
#include "cli/words.hpp"
#include "io/address.hpp"
#include "io/input.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

namespace fs = std::filesystem;

// The number of bytes kept of a command's output.
constexpr std::streamoff most_log = 4000;

// The maximum count of numbers in one value.
constexpr Index most_values = Index{1} << 24;

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

double number_of(const nlohmann::json& json, const std::string& place) {
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (json.is_number()) return json.get<double>();
  throw Error(Failure::input,
              place + " is " + json.type_name() + ", expected a number" +
                  (json.is_null() ? " (null stands for one that is not finite)" : ""));
}

struct Values {
  std::vector<double> numbers;
  std::optional<Shape> shape;  // set for a dataset
};

// A device or FIFO could be read forever.
void require_regular(const std::string& file, const std::string& place) {
  std::error_code failed;
  if (!fs::exists(file, failed)) throw Error(Failure::input, place + ": no such file");
  if (!fs::is_regular_file(file, failed)) {
    throw Error(Failure::input, place + ": not a regular file");
  }
}

// Appends arrays in arrays, row-major, nested at most as deep as datasets.
void add_numbers(const nlohmann::json& json, const std::string& place, int depth,
                 std::vector<double>& numbers) {
  if (!json.is_array()) {
    numbers.push_back(number_of(json, place));
    return;
  }
  if (depth == 0) throw Error(Failure::input, place + ": arrays are nested too deeply");
  for (const auto& item : json) add_numbers(item, place, depth - 1, numbers);
}

Values of_json(const std::string& file, const std::string& pointer, const std::string& place) {
  require_regular(file, place);
  std::ifstream stream(file);
  try {
    const auto json = nlohmann::json::parse(stream);
    Values values;
    add_numbers(json.at(nlohmann::json::json_pointer(pointer)), place, 32, values.numbers);
    return values;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Failure::input, place + ": " + cli::one_line(error.what()));
  }
}

Values of_dataset(const std::string& address, const std::string& place) {
  require_regular(io::parse_address(address).file, place);
  try {
    io::InputBundle::Options options;
    options.named = {{"value", address}};
    const io::InputBundle bundle(options);
    const io::InputDataset dataset = bundle.dataset("value");
    const Index count = element_count(dataset.shape());
    if (count > most_values) {
      throw Error(Failure::input,
                  fmt::format("{} numbers, expected {} at most", count, most_values));
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), values.data());
    return {std::move(values), dataset.shape()};
  } catch (const Error& error) {
    throw Error(Failure::input, place + ": " + error.what());
  }
}

Values read_values(const std::string& place, const Folder& folder, int status) {
  if (place == "status") return {{static_cast<double>(status)}, {}};
  constexpr std::string_view mark = ".json:/";
  const std::size_t at = place.find(mark);
  if (at == std::string::npos) return of_dataset(folder.file(place), place);
  const std::size_t end = at + mark.size() - 2;  // the colon
  return of_json(folder.file(place.substr(0, end)), place.substr(end + 1), place);
}

// NaN is refused, since it would refute any claim, including those that must fail.
Values values_at(const std::string& place, const Folder& folder, int status) {
  Values values = read_values(place, folder, status);
  const auto& numbers = values.numbers;
  const auto found =
      std::find_if(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
  if (found == numbers.end()) return values;
  throw Error(Failure::input, fmt::format("{}: number {} of {} is nan", place,
                                          found - numbers.begin(), numbers.size()));
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

Verdict judge(const Claim& claim, const Folder& folder, int status) {
  Values measured = values_at(claim.value, folder, status);
  if (claim.reduction) {
    measured = {{reduce(*claim.reduction, measured.numbers)}, {}};
    if (std::isnan(measured.numbers.front())) {
      throw Error(Failure::input, claim.value + ": no numbers to reduce");
    }
  }
  Values expected;
  if (const auto* place = std::get_if<std::string>(&claim.expected)) {
    expected = values_at(*place, folder, status);
  } else {
    expected.numbers = std::get<std::vector<double>>(claim.expected);
  }
  if (measured.shape && expected.shape && expected.numbers.size() != 1 &&
      *measured.shape != *expected.shape) {
    throw Error(Failure::input,
                fmt::format("{} is {}, {} is {}", claim.value, to_string(*measured.shape),
                            std::get<std::string>(claim.expected), to_string(*expected.shape)));
  }
  Values over;
  if (claim.over) over = values_at(*claim.over, folder, status);
  return judge(claim.criterion, measured.numbers, expected.numbers, over.numbers);
}

ShellCommand command_of(const Claim& claim, const ClaimPlace& place, const Folder& folder) {
  const char* path = std::getenv("PATH");
  ShellCommand command;
  command.command = claim.command;
  command.directory = folder.path();
  command.errors = folder.file("claim.log");
  command.time_limit = claim.time_limit;
  command.environment = {
      {"PATH", place.tools + ":" + (path == nullptr ? "/usr/bin:/bin" : path)},
      {"CLAIMS", fs::absolute(claim.file).lexically_normal().parent_path().string()},
      {"ATTN_NUM_THREADS", std::to_string(place.threads)},
      {"HOME", folder.path()},
      {"TMPDIR", folder.path()}};
  return command;
}

}  // namespace

bool as_expected(const Claim& claim, const ClaimResult& result) {
  return result.ran() && result.verdict.holds != claim.refuted;
}

ClaimResult run_claim(const Claim& claim, const ClaimPlace& place) {
  const Folder folder(claim, place);
  ClaimResult result;
  const ShellCommand command = command_of(claim, place, folder);
  const ShellOutcome outcome = run_shell(command);
  result.seconds = outcome.seconds;
  result.log = log_of(command.errors);
  try {
    require_run(claim, outcome);
    result.verdict = judge(claim, folder, outcome.status);
  } catch (const Error& error) {
    result.error = cli::one_line(error.what());
  }
  return result;
}

}  // namespace attn::tools
