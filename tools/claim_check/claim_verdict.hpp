#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attn::tools {

/// The relation claimed between measured numbers m and expected numbers e, with the tolerance t =
/// tolerance + relative_tolerance |e|. Each number stands for the shortest decimal that reads back
/// as this number, and the relation of these decimals is exact: 0.4 is within 0.1 of 0.3. This
/// moves a number by less than half a unit of its last binary place, so it decides only between
/// margins that are smaller than the rounding of a computed number.
enum class Relation {
  equal,        ///< |m − e| <= t
  within,       ///< the same; requires t > 0
  less,         ///< m < e + t
  at_most,      ///< m <= e + t
  greater,      ///< m > e − t
  at_least,     ///< m >= e − t
  increasing,   ///< each m_k+1 − m_k > −t; strictly with t = 0
  decreasing,   ///< each m_k − m_k+1 > −t
  slope,        ///< the least-squares slope of log |m| over log |x| is within t of e
  significant,  ///< as less, with m the p of a test (significance_test.hpp)
};

/// "=", "within", "<", "<=", ">", ">=", "increasing", "decreasing", "slope", "p<", in that
/// order.
const std::vector<std::string>& relation_names();
std::string name(Relation relation);

struct Criterion {
  Relation relation = Relation::equal;
  double tolerance = 0;
  double relative_tolerance = 0;
  bool any = false;  ///< one of several numbers is enough; else all must satisfy the relation
  double scale = 0;  ///< of the headroom of an inequality without tolerance; 0: |e|
};

/// t for an expected number.
double tolerance_at(const Criterion& criterion, double expected);

/// Reduces several numbers to one before they are judged. The result is NaN if a number is NaN or,
/// except for count, if there are no numbers.
enum class Reduction { min, max, max_abs, mean, sum, count, first, last };
const std::vector<std::string>& reduction_names();
double reduce(Reduction reduction, std::span<const double> values);

struct Verdict {
  bool holds = false;
  /// The distance from the edge of the tolerance, positive inside (0 if the edge itself is
  /// allowed): t − |m − e|, e + t − m, and so on; the least over several numbers. Equal infinities
  /// have the margin t.
  double margin = 0;
  double measured = 0;  ///< the number with that margin; for slope the slope
  double expected = 0;  ///< the number that it was compared with
};

/// Holds if there is a number and every number satisfies the relation, or any one if the criterion
/// says so; margin and numbers then belong to the best number. One expected number may be compared
/// with any count of measured ones; otherwise the counts of measured, expected and (for slope)
/// `over` must be equal. NaN never holds. Throws Error(input) for counts that do not match, and for
/// a slope of fewer than two numbers, of a number that is 0 or not finite, or over a number that is
/// not > 0.
Verdict judge(const Criterion& criterion, std::span<const double> measured,
              std::span<const double> expected, std::span<const double> over);

/// The unit of a verdict's margin: the tolerance t; for an inequality without tolerance, the scale,
/// else |e|. 0 if there is none, as for = without tolerance.
double headroom_unit(const Criterion& criterion, const Verdict& verdict);

}  // namespace attn::tools
