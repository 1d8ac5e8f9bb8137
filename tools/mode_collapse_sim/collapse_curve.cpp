#include "mode_collapse_sim/collapse_curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "cli/values.hpp"
#include "collapse/closed_form.hpp"
#include "common/frame/bundles.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr double least = 1e-300;
constexpr double most = 1e300;
constexpr double least_a = 1e-3;
constexpr double most_a = 1e100;
// In units of 2^-52: the error that the contract of collapse::distances allows.
constexpr double most_difference = 4;
constexpr double most_asymmetry = 32;
constexpr double smallest = std::numeric_limits<double>::min();

// The larger one; NaN if either is NaN.
double worse(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

/// r from LO to HI, equally spaced in the logarithm.
struct Grid {
  double low = 1;
  double high = 1;
  Index count = 1;

  double at(Index n) const {
    if (n == 0) return low;
    if (n == count - 1) return high;
    const double part = static_cast<double>(n) / static_cast<double>(count - 1);
    return std::clamp(std::exp(std::log(low) + part * (std::log(high) - std::log(low))), low, high);
  }
};

Grid read_grid(const cli::Arguments& arguments) {
  const std::string text = arguments.text("r");
  const std::vector<std::string> parts = cli::split(text, ':');
  const auto refuse = [&](const std::string& expected) {
    throw Error(Failure::usage, fmt::format("--r is {}, expected {}", text, expected));
  };
  if (parts.size() != 3) refuse("LO:HI:N, such as 1:1000:61");
  const auto low = cli::to_number(parts[0]);
  const auto high = cli::to_number(parts[1]);
  const auto count = cli::to_integer(parts[2]);
  if (!low || !high || !count) refuse("LO:HI:N, such as 1:1000:61");
  if (!(*low >= least && *high <= most && *low <= *high)) {
    refuse("1e-300 <= LO <= HI <= 1e300");
  }
  if (*count < 1 || *count > (Index{1} << 40)) refuse("N in [1, 2^40]");
  if (*count == 1 && *low != *high) refuse("LO = HI if N is 1");
  return {*low, *high, *count};
}

/// The findings for a row of the grid, or a part of it.
struct Findings {
  double least_difference = std::numeric_limits<double>::infinity();  ///< for dnas − unas, in ulps
  double asymmetry = 0;  ///< relative, for r against 1/r
  double gap = -1;       ///< the largest on the grid
  double gap_at = 0;

  void add(const collapse::Distances& d, double r, double a) {
    const double ulp = epsilon * std::max(d.unas, smallest);
    least_difference = 0.0 - worse(-least_difference, (d.unas - d.dnas) / ulp);
    // `distances` uses whichever of r and 1/r is below 1, this function the other.
    const collapse::Distances other = collapse::printed_distances(std::max(r, 1 / r), a);
    asymmetry = worse(asymmetry, std::abs(d.unas - other.unas) / std::max(other.unas, smallest));
    asymmetry = worse(asymmetry, std::abs(d.dnas - other.dnas) / std::max(other.dnas, smallest));
    if (d.gap > gap) {
      gap = d.gap;
      gap_at = r;
    }
  }

  void add(const Findings& more) {
    least_difference = 0.0 - worse(-least_difference, -more.least_difference);
    asymmetry = worse(asymmetry, more.asymmetry);
    if (more.gap > gap) {
      gap = more.gap;
      gap_at = more.gap_at;
    }
  }

  bool hold() const {
    return least_difference >= -most_difference && asymmetry <= most_asymmetry * epsilon;
  }
};

class Curve {
 public:
  Curve(const cli::Arguments& arguments, const Grid& grid, io::OutputBundle& output,
        cli::Report& report)
      : arguments_(arguments), grid_(grid), a_(arguments.numbers("a")), report_(report) {
    const auto rows = static_cast<Index>(a_.size());
    r_ = create(output, "r", {grid.count}, {"r"});
    create(output, "a", {rows}, {"a"})->write({0}, {rows}, a_.data());
    for (const char* name : {"unas_distance", "dnas_distance", "gap"}) {
      results_.push_back(*create(output, name, {rows, grid.count}, {"a", "r"}));
    }
  }

  std::vector<Findings> run() {
    cli::Progress progress(arguments_, "curve", static_cast<double>(grid_.count), "points");
    std::vector<Findings> found(a_.size());
    // Four numbers for each point in memory.
    const Index limit = std::clamp<Index>(arguments_.memory / 64, 1, Index{1} << 18);
    const Buffer<double> values(4 * std::min(limit, grid_.count));
    for (Index first = 0; first < grid_.count; first += limit) {
      const Index count = std::min(limit, grid_.count - first);
      for (Index n = 0; n < count; ++n) values[n] = grid_.at(first + n);
      r_->write({first}, {count}, values.data());
      for (std::size_t row = 0; row < a_.size(); ++row) {
        found[row].add(fill(row, count, values));
        for (std::size_t k = 0; k < results_.size(); ++k) {
          results_[k].write({static_cast<Index>(row), first}, {1, count},
                            values.data() + (static_cast<Index>(k) + 1) * count);
        }
      }
      progress.advance(static_cast<double>(count));
    }
    return found;
  }

 private:
  std::optional<io::OutputDataset> create(io::OutputBundle& output, const std::string& name,
                                          const Shape& shape,
                                          const std::vector<std::string>& labels) {
    report_.output(name, output.address_of(name), shape, DType::f64);
    return output.create(name, DType::f64, shape, labels);
  }

  // values: r, then the three results for it.
  Findings fill(std::size_t row, Index count, const Buffer<double>& values) {
    constexpr Index piece = 4096;
    const Index pieces = (count + piece - 1) / piece;
    std::vector<Findings> found(static_cast<std::size_t>(pieces));
    report_.compute([&] {
      parallel_for(pieces, arguments_.threads, [&](Index item, int) {
        const Index end = std::min(count, (item + 1) * piece);
        for (Index n = item * piece; n < end; ++n) {
          const collapse::Distances d = collapse::distances(values[n], a_[row]);
          values[count + n] = d.unas;
          values[2 * count + n] = d.dnas;
          values[3 * count + n] = d.gap;
          found[static_cast<std::size_t>(item)].add(d, values[n], a_[row]);
        }
      });
    });
    Findings all;
    for (const Findings& some : found) all.add(some);
    return all;
  }

  const cli::Arguments& arguments_;
  Grid grid_;
  std::vector<double> a_;
  cli::Report& report_;
  std::optional<io::OutputDataset> r_;
  std::vector<io::OutputDataset> results_;
};

Json json_of(double a, const Findings& found, const collapse::Peak& peak) {
  Json json;
  json["a"] = a;
  json["least_difference_ulps"] = found.least_difference;
  json["asymmetry"] = found.asymmetry;
  json["holds"] = found.hold();
  json["grid_peak"] = {{"r", found.gap_at}, {"gap", found.gap}};
  json["peak"] = {
      {"r", std::exp(peak.log_r)}, {"log10_r", peak.log_r / std::log(10.0)}, {"gap", peak.gap}};
  return json;
}

std::string row_of(double a, const Findings& found, const collapse::Peak& peak) {
  const double exponent = peak.log_r / std::log(10.0);
  const std::string r = exponent < 300 ? fmt::format("{:.4g}", std::exp(peak.log_r))
                                       : fmt::format("1e{:.4g}", exponent);
  return fmt::format("{:<8.4g} {:>12} {:>10.4g} {:>10.4g} {:>10.4g} {:>12.2g} {:>10.2g}\n", a, r,
                     peak.gap, found.gap_at, found.gap, found.least_difference, found.asymmetry);
}

}  // namespace

void declare_curve(cli::Declaration& d) {
  d.section("curve");
  d.text("r", "LO:HI:N",
         "N ratios of the numbers of points, from LO to HI, equally spaced in the logarithm.",
         "1:1e6:121");
  d.only_with({"curve"});
  d.numbers("a", "LIST", "Half the initial distance of the two groups.", {least_a, most_a},
            {0.5, 1, 2});
  d.only_with({"curve"});
}

cli::Outcome run_curve(const cli::Arguments& arguments, cli::Report& report) {
  const Grid grid = read_grid(arguments);
  const std::vector<double> a = arguments.numbers("a");
  const double numbers = static_cast<double>(grid.count) * (1 + 3 * static_cast<double>(a.size()));
  if (numbers > 0x1p58) throw Error(Failure::usage, "--r and --a make too many numbers");
  Json& result = report.result();
  result["r"] = grid.count;
  if (arguments.dry_run) {
    result["result_bytes"] = 8 * numbers;
    report.print(fmt::format("r {}, a {}: {}\n", grid.count, a.size(), bytes_text(8 * numbers)));
    return {};
  }
  io::OutputBundle output = open_output(arguments);
  output.add_history(arguments.command_line, arguments.version);
  const std::vector<Findings> found = Curve(arguments, grid, output, report).run();

  std::string text =
      fmt::format("{:<8} {:>12} {:>10} {:>10} {:>10} {:>12} {:>10}\n", "a", "gap peaks at", "gap",
                  "on grid at", "gap", "ulps, least", "asymmetry");
  bool hold = true;
  result["curves"] = Json::array();
  for (std::size_t row = 0; row < a.size(); ++row) {
    const collapse::Peak peak = collapse::gap_peak(a[row]);
    result["curves"].push_back(json_of(a[row], found[row], peak));
    text += row_of(a[row], found[row], peak);
    hold = hold && found[row].hold();
  }
  result["holds"] = hold;
  report.print(text);
  cli::Outcome outcome;
  outcome.summary = fmt::format("curve, {} r x {} a: dnas {} unas everywhere", grid.count, a.size(),
                                hold ? ">=" : "is not >=");
  if (!hold) {
    report.status("no");
    outcome.status = 1;
    outcome.summary = "curve: dnas >= unas and symmetry do not hold everywhere, see the table";
  }
  outcome.commit = commit_of(std::move(output), report);
  return outcome;
}

}  // namespace attn::tools
