#include "collapse/closed_form.hpp"

#include <algorithm>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <limits>

namespace attn::collapse {
namespace {

constexpr double least = 1e-301;
constexpr double most = 1e301;
constexpr double none = std::numeric_limits<double>::quiet_NaN();

// log(e^x + e^y)
double log_sum(double x, double y) {
  return std::max(x, y) + std::log1p(std::exp(-std::abs(x - y)));
}

// In logarithms nothing underflows, however far apart the points are: t = 1/r = exp(−x), s =
// exp(l).
struct Logarithms {
  double x;
  double l;
  double plus_s = log_sum(-x, l);                 // log(t + s)
  double one_plus = std::log1p(std::exp(l - x));  // log(1 + ts)
  // t' = t(1 + ts)/(t + s) plays the role in dnas that t plays in unas.
  double x_dnas = x - one_plus + plus_s;
};

// log of t/((t + s)(1 + ts)); distances are 2a(1 − s²) times t/((t + s)(1 + ts)).
double log_share(double x, double l) { return -x - log_sum(-x, l) - std::log1p(std::exp(l - x)); }

// log of minus the derivative of that share by x, over s: t(1 − t²)/((t + s)(1 + ts))², given 1 −
// t².
double log_slope(double x, double l, double log_rest) {
  return -x + log_rest - 2 * log_sum(-x, l) - 2 * std::log1p(std::exp(l - x));
}

// log of the ratio of the fall of unas to the fall of dnas as x grows: above 0 before the peak.
double slope_ratio(double x, double a) {
  const double l = -2 * a * a;
  const Logarithms at{x, l};
  const double log_rest = std::log(-std::expm1(-2 * x));  // 1 − t²
  // 1 − t' = s(1 − t²)/(t + s), and d log t'/d log t = s(1 + 2ts + t²)/((t + s)(1 + ts)).
  const double log_rest_dnas = l + log_rest - at.plus_s + std::log1p(std::exp(-at.x_dnas));
  const double log_chain =
      l + std::log1p(2 * std::exp(l - x) + std::exp(-2 * x)) - at.plus_s - at.one_plus;
  return log_slope(x, l, log_rest) - log_slope(at.x_dnas, l, log_rest_dnas) - log_chain;
}

}  // namespace

Distances distances(double r, double a) {
  if (!(r >= least && r <= most && a >= least && a <= most)) return {none, none, none};
  const bool above = r >= 1;
  const double t = above ? 1 / r : r;
  const double one_less_t = above ? (r - 1) / r : 1 - r;
  const double square = a * a;
  const double s = std::exp(-2 * square);
  const double length = 2 * a * -std::expm1(-4 * square);  // 2a(1 − s²)
  const double unas_low = (t + s) * (1 + t * s);
  // Like unas with other numbers of points, as q only divides r.
  const double u = t * ((1 + t * s) / (t + s));
  const double dnas_low = (u + s) * (1 + u * s);
  const double grown = t * one_less_t * -std::expm1(-2 * square) / (t + s);  // u − t
  const double one_less_tu = one_less_t * ((t + s * (1 + t + t * t)) / (t + s));
  return {length * (t / unas_low), length * (u / dnas_low),
          length * (grown / unas_low) * (s / dnas_low) * one_less_tu};
}

Distances printed_distances(double r, double a) {
  if (!(r >= 1 && r <= most && a >= least && a <= most)) return {none, none, none};
  const double s = std::exp(-2 * a * a);
  const double length = 2 * a * -std::expm1(-4 * a * a);
  const double q = (r + s) / (r * s + 1);
  // Each fraction by itself, because their products overflow.
  const double unas = length * (r / (1 + r * s) / (r + s));
  const double dnas = length * ((q / (q + r * s)) * (r / (r + s * q)));
  return {unas, dnas, dnas - unas};
}

Peak gap_peak(double a) {
  if (!(a >= 1e-3 && a <= 1e100)) return {none, none};
  const double high = 4 * a * a + 4;
  const auto [low, above] =
      boost::math::tools::bisect([a](double x) { return slope_ratio(x, a); }, 1e-3, high,
                                 boost::math::tools::eps_tolerance<double>(52));
  Peak peak;
  peak.log_r = low + 0.5 * (above - low);
  const double l = -2 * a * a;
  const double unas = log_share(peak.log_r, l);
  const double dnas = log_share(Logarithms{peak.log_r, l}.x_dnas, l);
  peak.gap = 2 * a * -std::expm1(2 * l) * std::exp(dnas) * -std::expm1(unas - dnas);
  return peak;
}

}  // namespace attn::collapse
