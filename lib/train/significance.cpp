#include "train/significance.hpp"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

namespace attn::train {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

// Sample over population deviation.
double deviation_ratio(Index count) {
  if (count < 2) return undefined;
  const auto n = static_cast<double>(count);
  return std::sqrt(n / (n - 1));
}

double standard_error(const Sample& sample) {
  const double deviation = sample.sample_deviation;
  if (sample.count < 2 || !(deviation >= 0 && std::isfinite(deviation))) return undefined;
  return deviation / std::sqrt(static_cast<double>(sample.count));
}

double degrees_of(const Sample& sample) { return static_cast<double>(sample.count) - 1; }

TTest test_of(double t, double degrees) {
  const double p = student_upper_tail(t, degrees);
  return std::isnan(p) ? TTest{undefined, undefined, undefined} : TTest{t, degrees, p};
}

}  // namespace

Sample sample_of(std::span<const double> values) {
  if (values.empty()) return {undefined, undefined, undefined, 0};
  const auto n = static_cast<double>(values.size());
  // Differences to a value, so that the mean of equal ones has no rounding, nor their deviation.
  double shift = 0;
  for (const double value : values) shift += value - values.front();
  const double mean = values.front() + shift / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (!std::isfinite(squares)) {
    return {undefined, undefined, undefined, static_cast<Index>(values.size())};
  }
  const double sample = values.size() > 1 ? std::sqrt(squares / (n - 1)) : undefined;
  return {mean, std::sqrt(squares / n), sample, static_cast<Index>(values.size())};
}

Sample with_population_deviation(double mean, double deviation, Index count) {
  const double ratio = deviation_ratio(count);
  return {mean, std::isnan(ratio) ? undefined : deviation, deviation * ratio, count};
}

Sample with_sample_deviation(double mean, double deviation, Index count) {
  const double ratio = deviation_ratio(count);
  return {mean, deviation / ratio, std::isnan(ratio) ? undefined : deviation, count};
}

TTest welch_one_sided(const Sample& a, const Sample& b) {
  const double error_a = standard_error(a);
  const double error_b = standard_error(b);
  const double error = std::hypot(error_a, error_b);
  // Quotients of errors, whose squares neither overflow nor both vanish.
  const double part_a = (error_a / error) * (error_a / error);
  const double part_b = (error_b / error) * (error_b / error);
  const double inverse = part_a * part_a / degrees_of(a) + part_b * part_b / degrees_of(b);
  return test_of((b.mean - a.mean) / error, 1 / inverse);
}

TTest one_sample_one_sided(const Sample& sample, double reference) {
  return test_of((sample.mean - reference) / standard_error(sample), degrees_of(sample));
}

double student_upper_tail(double t, double degrees) {
  if (!std::isfinite(t) || !(degrees > 0 && std::isfinite(degrees))) return undefined;
  const boost::math::students_t distribution(degrees);
  // The complement, for 1 − P(T <= t) has no digits left where p is small.
  return boost::math::cdf(boost::math::complement(distribution, t));
}

}  // namespace attn::train
