#include "seed_test/run_group.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"

namespace attn::tools {
namespace {

// Why both logs are the same run, or empty.
std::string sameness(const LoggedRun& a, const LoggedRun& b) {
  if (a.name() == b.name()) return fmt::format("{} is given twice", a.name());
  std::error_code none;
  if (std::filesystem::equivalent(a.name(), b.name(), none)) {
    return fmt::format("{} and {} are one file", a.name(), b.name());
  }
  if (!a.seed() || a.seed() != b.seed()) return "";
  return fmt::format("{} and {} are runs of one seed, {}", a.name(), b.name(), *a.seed());
}

// A run counts as evidence only once.
void require_different_runs(const std::vector<LoggedRun>& logs) {
  for (std::size_t n = 0; n < logs.size(); ++n) {
    for (std::size_t m = 0; m < n; ++m) {
      const std::string why = sameness(logs[m], logs[n]);
      if (why.empty()) continue;
      throw Error(Failure::input, why,
                  "each run counts once in a group; the word against stands between two groups");
    }
  }
}

}  // namespace

Runs::Runs(const std::vector<std::string>& words) : words_(words) {
  for (const std::string& word : words) {
    if (const std::optional<double> number = cli::to_number(word)) {
      numbers_.push_back(*number);
    } else {
      logs_.emplace_back(word);
    }
  }
  if (are_logs() && !numbers_.empty()) {
    throw Error(Failure::usage,
                fmt::format("both numbers and logs are given as runs: {}", fmt::join(words, " ")),
                "./1 is the file named 1");
  }
  take_seeds();
}

Runs::Runs(std::vector<LoggedRun> logs) : logs_(std::move(logs)) {
  for (const LoggedRun& log : logs_) words_.push_back(log.name());
  take_seeds();
}

void Runs::take_seeds() {
  require_different_runs(logs_);
  for (const LoggedRun& log : logs_) {
    if (const std::optional<Index> seed = log.seed()) seeds_.push_back(*seed);
  }
  if (seeds_.size() != logs_.size()) seeds_.clear();
}

RunGroup Runs::group(const std::string& name, const std::string& metric, Chosen chosen) const {
  RunGroup group;
  group.name = name;
  group.runs = words_;
  group.seeds = seeds_;
  group.values = numbers_;
  for (const LoggedRun& log : logs_) group.values.push_back(log.value(metric, chosen));
  group.sample = train::sample_of(group.values);
  if (!std::isfinite(group.sample.population_deviation)) {
    throw Error(Failure::input,
                fmt::format("the deviation of {} is beyond float64", fmt::join(words_, " ")));
  }
  group.deviation = group.sample.population_deviation;
  return group;
}

RunGroup printed_group(const std::string& name, double mean, double deviation, Index count) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  RunGroup group;
  group.name = name;
  group.sample = {mean, unknown, unknown, count};
  group.deviation = deviation;
  return group;
}

}  // namespace attn::tools
