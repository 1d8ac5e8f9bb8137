#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attn::tools {

/// What is claimed of measured numbers m, against expected ones e. With a tolerance t = tolerance +
/// relative_tolerance |e|:
enum class Relation {
  equal,       ///< |m − e| <= t
  within,      ///< the same, of which t > 0 is a part
  less,        ///< m < e + t
  at_most,     ///< m <= e + t
  greater,     ///< m > e − t
  at_least,    ///< m >= e − t
  increasing,  ///< each m_k+1 − m_k > −t; strictly with t = 0
  decreasing,  ///< each m_k − m_k+1 > −t
  slope,       ///< that of log |m| over log |x|, by least squares, is within t of e
};

/// "=", "within", "<", "<=", ">", ">=", "increasing", "decreasing", "slope", in that order.
const std::vector<std::string>& relation_names();
std::string name(Relation relation);

struct Criterion {
  Relation relation = Relation::equal;
  double tolerance = 0;
  double relative_tolerance = 0;
};

/// Many numbers to one, before they are judged: NaN where one of the numbers is and, but for count,
/// where there is none.
enum class Reduction { min, max, max_abs, mean, sum, count, first, last };
const std::vector<std::string>& reduction_names();
double reduce(Reduction reduction, std::span<const double> values);

struct Verdict {
  bool holds = false;
  /// How far inside (> 0, or 0 where the bound counts in) or outside: t − |m − e|, e + t − m, and
  /// so on; of several numbers the least. Equal infinities have the margin t.
  double margin = 0;
  double measured = 0;  ///< the number of that margin; of slope the slope
  double expected = 0;  ///< what it was held against
};

/// Holds where every number does, and there is one. One expected number goes with any count of
/// measured ones; else both, and `over` of slope, are as many. NaN never holds. Throws
/// Error(input) for counts that do not fit, and for a
/// slope of fewer than two numbers, of any that is 0 or not finite, or over any that is not > 0.
Verdict judge(const Criterion& criterion, std::span<const double> measured,
              std::span<const double> expected, std::span<const double> over);

}  // namespace attn::tools
