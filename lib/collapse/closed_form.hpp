#pragma once

namespace attn::collapse {

/// The distance, after one step of attention, between the means of two groups of coinciding points
/// on a line, r times as many at a as at −a (DN §5.2 and (12), EA E; MATHEMATICS.md §5). With s =
/// exp(−2a²) and q = (r + s)/(rs + 1),
///
///   unas  2r(1 − s²)a / ((1 + rs)(r + s))       dnas  2qr(1 − s²)a / ((q + rs)(r + sq)),
///
/// for both the gaussian energy and the dot product; the same for r and 1/r, and dnas >= unas.
struct Distances {
  double unas = 0;
  double dnas = 0;
  double gap = 0;  ///< dnas − unas, computed without a subtraction: never below 0
};

/// For r and a in [1e-301, 1e301]; NaN for anything else. Relative error: about 10 + 4a² roundings,
/// where 4a² is the error of s, also of the gap, however small; but where s underflows (a > 18.8)
/// the gap is off by up to 1e-22 of the distances, and results below 2.3e-308 by up to the spacing
/// of numbers there. Nothing overflows.
Distances distances(double r, double a);

/// The same by the formulas above with r itself, where distances uses 1/r: a check of distances and
/// of the symmetry in r. For r in [1, 1e301]; the error of unas and dnas is that of distances, but
/// relative to at least 2.3e-308; gap is their difference.
Distances printed_distances(double r, double a);

/// The position of the largest gap over r >= 1 (DN §5.2 claims that it grows without end:
/// MATHEMATICS.md §9, E11).
struct Peak {
  double log_r = 0;  ///< natural logarithm: r itself is beyond double from a = 15.4 on
  double gap = 0;
};

/// The root of d gap / d log r between 0 (r = 1, where the gap is 0) and 4a² + 4: from r = 3 + 2√2
/// for a → 0 to s^(−3/2) for a → ∞. Relative error of log_r about 1e-14 max(1, 1/a²); computed in
/// logarithms throughout. Requires a in [1e-3, 1e100]; NaN for anything else.
Peak gap_peak(double a);

}  // namespace attn::collapse
