#include "train/significance.hpp"

#include <boost/math/distributions/binomial.hpp>
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

// The standard error of a difference of means, and its degrees of freedom.
struct WelchError {
  double size;
  double degrees;
};

WelchError welch_error(const Sample& a, const Sample& b) {
  const double error_a = standard_error(a);
  const double error_b = standard_error(b);
  const double error = std::hypot(error_a, error_b);
  // Quotients of errors, whose squares neither overflow nor both underflow.
  const double part_a = (error_a / error) * (error_a / error);
  const double part_b = (error_b / error) * (error_b / error);
  const double inverse = part_a * part_a / degrees_of(a) + part_b * part_b / degrees_of(b);
  return {error, 1 / inverse};
}

Interval interval_of(double estimate, double error, double degrees, double confidence) {
  // Without a deviation, t is undefined.
  if (!(error > 0 && std::isfinite(error) && degrees > 0)) return {undefined, undefined};
  const boost::math::students_t distribution(degrees);
  const double t =
      boost::math::quantile(boost::math::complement(distribution, (1 - confidence) / 2));
  return {estimate - t * error, estimate + t * error};
}

TTest test_of(double t, double degrees) {
  const double p = student_upper_tail(t, degrees);
  return std::isnan(p) ? TTest{undefined, undefined, undefined} : TTest{t, degrees, p};
}

}  // namespace

Sample sample_of(std::span<const double> values) {
  if (values.empty()) return {undefined, undefined, undefined, 0};
  const auto n = static_cast<double>(values.size());
  // Differences to one value, so that the mean and deviation of equal values have no rounding.
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
  const WelchError error = welch_error(a, b);
  return test_of((b.mean - a.mean) / error.size, error.degrees);
}

TTest one_sample_one_sided(const Sample& sample, double reference) {
  return test_of((sample.mean - reference) / standard_error(sample), degrees_of(sample));
}

Interval welch_interval(const Sample& a, const Sample& b, double confidence) {
  const WelchError error = welch_error(a, b);
  return interval_of(a.mean - b.mean, error.size, error.degrees, confidence);
}

Interval mean_interval(const Sample& sample, double confidence) {
  return interval_of(sample.mean, standard_error(sample), degrees_of(sample), confidence);
}

double binomial_upper_tail(Index successes, Index trials, double probability) {
  if (successes == 0) return 1;
  const boost::math::binomial distribution(static_cast<double>(trials), probability);
  return boost::math::cdf(
      boost::math::complement(distribution, static_cast<double>(successes - 1)));
}

Interval proportion_interval(Index successes, Index trials, double confidence) {
  using Binomial = boost::math::binomial;
  const auto n = static_cast<double>(trials);
  const auto k = static_cast<double>(successes);
  const double beyond = (1 - confidence) / 2;
  return {Binomial::find_lower_bound_on_p(n, k, beyond),
          Binomial::find_upper_bound_on_p(n, k, beyond)};
}

double student_upper_tail(double t, double degrees) {
  if (!std::isfinite(t) || !(degrees > 0 && std::isfinite(degrees))) return undefined;
  const boost::math::students_t distribution(degrees);
  // The complement, because 1 − P(T <= t) has no digits left for small p.
  return boost::math::cdf(boost::math::complement(distribution, t));
}

}  // namespace attn::train
