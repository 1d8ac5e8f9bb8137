#pragma once

#include <span>

#include "tensor/shape.hpp"

namespace attn::train {

/// The results of some runs, such as for some seeds. Printed tables seldom say which of the two
/// deviations follows a ±, and p depends on it (MATHEMATICS.md §9, E4 and E6).
struct Sample {
  double mean;
  double population_deviation;  ///< √(Σ(x − mean)²/n)
  double sample_deviation;      ///< √(Σ(x − mean)²/(n − 1)), NaN for n = 1
  Index count;                  ///< n
};

/// Equal values have deviations of exactly 0. All NaN without values, and if one is not finite.
Sample sample_of(std::span<const double> values);

/// A printed mean ± deviation of `count` runs, with the deviation taken as the population's or the
/// sample's; the other one follows. Both deviations are NaN for count < 2.
Sample with_population_deviation(double mean, double deviation, Index count);
Sample with_sample_deviation(double mean, double deviation, Index count);

/// A one-sided t-test. `t` is positive and `p` below ½ if the means differ in the tested direction.
struct TTest {
  double t;
  double degrees;  ///< degrees of freedom ν > 0, whole or not
  double p;        ///< P(T_ν >= t), in [0, 1]
};

/// Whether the population mean of `a` is below that of `b`, with unequal variances (Welch, 1947), s
/// the sample deviations and w = (s_a²/n_a)/(s_a²/n_a + s_b²/n_b):
///
///     t = (mean_b − mean_a)/√(s_a²/n_a + s_b²/n_b),  1/ν = w²/(n_a − 1) + (1 − w)²/(n_b − 1)
///
/// All NaN if undefined: fewer than two values in one of the samples, a number that is not finite,
/// or no deviation in both.
TTest welch_one_sided(const Sample& a, const Sample& b);

/// Whether the population mean of the sample is above `reference` (Student, 1908):
///
///     t = (mean − reference)/(s/√n),  ν = n − 1
///
/// All NaN for fewer than two values, a number that is not finite, or no deviation.
TTest one_sample_one_sided(const Sample& sample, double reference);

/// Bounds between which a number lies with some confidence; infinite if nothing is known.
struct Interval {
  double low;
  double high;
};

/// The interval of Welch's test for mean_a − mean_b, and of Student's test for the mean of a
/// sample: the estimate ± its standard error times the t that T_ν exceeds with probability (1 −
/// confidence)/2. NaN like the tests. Requires 0 < confidence < 1.
Interval welch_interval(const Sample& a, const Sample& b, double confidence);
Interval mean_interval(const Sample& sample, double confidence);

/// P(X >= successes) for X binomial, of `trials` with `probability` each (Clopper and Pearson,
/// 1934, for the interval of the probability). Requires 0 <= successes <= trials, trials >= 1 and a
/// probability in [0, 1].
double binomial_upper_tail(Index successes, Index trials, double probability);
Interval proportion_interval(Index successes, Index trials, double confidence);

/// P(T_ν >= t) for Student's t with ν = `degrees`: ½ I_x(ν/2, ½) with x = ν/(ν + t²) for t >= 0. In
/// [0, 1]; NaN unless t is finite and ν finite and positive. The relative error is 1e-13 for ν >=
/// ½, |t| <= 1e150 and results of at least 1e-300, but 1e-9 for ν = 1 and |t| below 1e-6.
double student_upper_tail(double t, double degrees);

}  // namespace attn::train
