#include "claim_check/claim_verdict.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "claim_check/decimal_value.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// The margin, and whether it may be 0.
struct Slack {
  double margin;
  bool closed;
  bool holds() const { return closed ? margin >= 0 : margin > 0; }
};

// Infinities of the same sign differ by 0.
template <class Number>
Number difference(const Number& x, const Number& y) {
  return x == y ? Number(0) : Number(x - y);
}

template <class Number>
Number margin_of(Relation relation, const Number& measured, const Number& expected,
                 const Number& room) {
  using std::abs;
  switch (relation) {
    case Relation::less:
    case Relation::significant:
    case Relation::at_most:
    case Relation::decreasing:
      return difference(expected, measured) + room;
    case Relation::greater:
    case Relation::at_least:
    case Relation::increasing:
      return difference(measured, expected) + room;
    case Relation::equal:
    case Relation::within:
    case Relation::slope:
      break;
  }
  return room - abs(difference(measured, expected));
}

bool is_closed(Relation relation) {
  switch (relation) {
    case Relation::less:
    case Relation::significant:
    case Relation::greater:
    case Relation::increasing:
    case Relation::decreasing:
      return false;
    case Relation::equal:
    case Relation::within:
    case Relation::slope:
    case Relation::at_most:
    case Relation::at_least:
      break;
  }
  return true;
}

// Whether rounding may have turned the sign of the margin, which was computed in double.
bool is_within_rounding(double margin, double measured, double expected, double room) {
  constexpr double unit = std::numeric_limits<double>::epsilon();
  constexpr double least = std::numeric_limits<double>::denorm_min();
  const double size = std::abs(measured) + std::abs(expected) + room;
  return std::isfinite(measured) && std::isfinite(expected) &&
         std::abs(margin) <= 8 * (unit * size + least);
}

Slack slack(const Criterion& criterion, double measured, double expected) {
  const Relation relation = criterion.relation;
  const double room = tolerance_at(criterion, expected);
  double margin = margin_of(relation, measured, expected, room);
  if (is_within_rounding(margin, measured, expected, room)) {
    const Decimal m = shortest_decimal(measured);
    const Decimal e = shortest_decimal(expected);
    const Decimal t = shortest_decimal(criterion.tolerance) +
                      shortest_decimal(criterion.relative_tolerance) * abs(e);
    margin = static_cast<double>(margin_of<Decimal>(relation, m, e, t));
  }
  return {margin, is_closed(relation)};
}

// The number with the least margin, or with the largest if one is enough; NaN is decisive.
class Decisive {
 public:
  explicit Decisive(bool any) : any_(any) { verdict_.holds = !any; }

  void take(const Slack& found, double measured, double expected) {
    const bool holds = found.holds();
    verdict_.holds = any_ ? verdict_.holds || holds : verdict_.holds && holds;
    if (count_++ == 0 || (any_ ? is_better(found.margin) : is_worse(found.margin))) {
      verdict_.margin = found.margin;
      verdict_.measured = measured;
      verdict_.expected = expected;
    }
  }
  const Verdict& verdict() const { return verdict_; }

 private:
  bool is_worse(double margin) const {
    return !std::isnan(verdict_.margin) && !(margin >= verdict_.margin);
  }
  bool is_better(double margin) const {
    return !std::isnan(margin) && !(margin <= verdict_.margin);
  }

  bool any_;
  Verdict verdict_{true, nan, nan, nan};
  std::size_t count_ = 0;
};

Verdict steps(const Criterion& criterion, std::span<const double> measured) {
  if (measured.size() < 2) {
    throw Error(Failure::input, fmt::format("{} number, expected at least 2 for {}",
                                            measured.size(), name(criterion.relation)));
  }
  Decisive decisive(false);
  for (std::size_t k = 1; k < measured.size(); ++k) {
    decisive.take(slack(criterion, measured[k], measured[k - 1]), measured[k], measured[k - 1]);
  }
  return decisive.verdict();
}

double log_slope(std::span<const double> measured, std::span<const double> over) {
  if (measured.size() != over.size() || measured.size() < 2) {
    throw Error(Failure::input, fmt::format("{} over {}, expected as many, and 2 at least",
                                            cli::counted(measured.size(), "number"), over.size()));
  }
  std::vector<double> x, y;
  for (std::size_t k = 0; k < over.size(); ++k) {
    x.push_back(std::log(over[k]));
    y.push_back(std::log(std::abs(measured[k])));
    if (!std::isfinite(x[k]) || !std::isfinite(y[k])) {
      throw Error(Failure::input,
                  fmt::format("no slope of {:g} over {:g}, expected numbers that are "
                              "finite and not 0, over numbers > 0",
                              measured[k], over[k]));
    }
  }
  const auto count = static_cast<double>(x.size());
  const double x_mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double y_mean = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double both = 0;
  double square = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    both += (x[k] - x_mean) * (y[k] - y_mean);
    square += (x[k] - x_mean) * (x[k] - x_mean);
  }
  if (!(square > 0)) {
    throw Error(Failure::input, "a slope over numbers that are all equal");
  }
  return both / square;
}

}  // namespace

const std::vector<std::string>& relation_names() {
  static const std::vector<std::string> names = {"=",  "within",     "<",          "<=",    ">",
                                                 ">=", "increasing", "decreasing", "slope", "p<"};
  return names;
}

std::string name(Relation relation) { return relation_names()[static_cast<std::size_t>(relation)]; }

double tolerance_at(const Criterion& criterion, double expected) {
  // Not 0 times an infinity.
  const double relative =
      criterion.relative_tolerance == 0 ? 0 : criterion.relative_tolerance * std::abs(expected);
  return criterion.tolerance + relative;
}

const std::vector<std::string>& reduction_names() {
  static const std::vector<std::string> names = {"min", "max",   "max-abs", "mean",
                                                 "sum", "count", "first",   "last"};
  return names;
}

double reduce(Reduction reduction, std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  if (values.empty() && reduction == Reduction::count) return 0;
  if (values.empty()) return nan;
  for (const double value : values) {
    if (std::isnan(value)) return nan;
  }
  switch (reduction) {
    case Reduction::min:
      return *std::min_element(values.begin(), values.end());
    case Reduction::max:
      return *std::max_element(values.begin(), values.end());
    case Reduction::max_abs: {
      double most = 0;
      for (const double value : values) most = std::max(most, std::abs(value));
      return most;
    }
    case Reduction::first:
      return values.front();
    case Reduction::last:
      return values.back();
    case Reduction::mean:
    case Reduction::sum:
    case Reduction::count:
      break;
  }
  if (reduction == Reduction::count) return count;
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return reduction == Reduction::mean ? sum / count : sum;
}

Verdict judge(const Criterion& criterion, std::span<const double> measured,
              std::span<const double> expected, std::span<const double> over) {
  const Relation relation = criterion.relation;
  if (relation == Relation::increasing || relation == Relation::decreasing) {
    return steps(criterion, measured);
  }
  double slope = 0;
  if (relation == Relation::slope) {
    slope = log_slope(measured, over);
    measured = std::span(&slope, 1);
  }
  if (measured.empty()) throw Error(Failure::input, "there are no numbers to judge");
  if (expected.size() != 1 && expected.size() != measured.size()) {
    throw Error(Failure::input,
                fmt::format("{} against {}", cli::counted(measured.size(), "number"),
                            cli::counted(expected.size(), "expected one")));
  }
  Decisive decisive(criterion.any);
  for (std::size_t k = 0; k < measured.size(); ++k) {
    const double wanted = expected[expected.size() == 1 ? 0 : k];
    decisive.take(slack(criterion, measured[k], wanted), measured[k], wanted);
  }
  return decisive.verdict();
}

double headroom_unit(const Criterion& criterion, const Verdict& verdict) {
  switch (criterion.relation) {
    case Relation::increasing:
    case Relation::decreasing:
      return criterion.tolerance;
    case Relation::less:
    case Relation::at_most:
    case Relation::greater:
    case Relation::at_least:
    case Relation::significant:
      break;
    case Relation::equal:
    case Relation::within:
    case Relation::slope:
      return tolerance_at(criterion, verdict.expected);
  }
  const double tolerance = tolerance_at(criterion, verdict.expected);
  if (tolerance > 0) return tolerance;
  return criterion.scale > 0 ? criterion.scale : std::abs(verdict.expected);
}

}  // namespace attn::tools
