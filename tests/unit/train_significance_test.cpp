// lib/train: t-tests against known values, plain integrals, and the printed tables of SI and EA.

#include "train/significance.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

using namespace attn;
using namespace attn::train;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// NaN is within no bounds.
bool is_within(double value, double expected, double error) {
  return std::abs(value - expected) <= error;
}

bool all_nan(const TTest& test) {
  return std::isnan(test.t) && std::isnan(test.degrees) && std::isnan(test.p);
}

// ∫_0^end sin^(ν−1) by Simpson's rule, after a substitution that makes it smooth at 0.
double sine_integral(double end, double degrees) {
  const int pieces = 8000;
  const auto at = [&](int k) {
    const double w = static_cast<double>(k) / pieces;
    return std::pow(std::sin(end * w * w * w), degrees - 1) * 3 * w * w * end;
  };
  double sum = at(0) + at(pieces);
  for (int k = 1; k < pieces; ++k) sum += at(k) * (k % 2 == 1 ? 4 : 2);
  return sum / (3 * pieces);
}

// With t = √ν cot φ, the density of Student's t is proportional to sin^(ν−1) φ.
double plain_tail(double t, double degrees) {
  const double part = sine_integral(std::atan2(std::sqrt(degrees), std::abs(t)), degrees) /
                      (2 * sine_integral(std::numbers::pi / 2, degrees));
  return t >= 0 ? part : 1 - part;
}

// The formula of Welch as it is usually printed.
TTest plain_welch(const std::vector<double>& a, const std::vector<double>& b) {
  const auto moments = [](const std::vector<double>& values) {
    long double sum = 0;
    long double squares = 0;
    for (const double x : values) sum += x;
    const long double n = static_cast<long double>(values.size());
    for (const double x : values) squares += (x - sum / n) * (x - sum / n);
    return std::pair{sum / n, squares / (n - 1) / n};
  };
  const auto [mean_a, va] = moments(a);
  const auto [mean_b, vb] = moments(b);
  const long double v = va + vb;
  const auto degrees =
      static_cast<double>(v * v / (va * va / (a.size() - 1) + vb * vb / (b.size() - 1)));
  const auto t = static_cast<double>((mean_b - mean_a) / std::sqrt(v));
  return {t, degrees, plain_tail(t, degrees)};
}

// A cell of a printed table, and half a unit of its last digit.
struct Cell {
  explicit Cell(const std::string& text) : value(std::stod(text)) {
    const auto digits = static_cast<double>(text.size() - text.find('.') - 1);
    half = 0.5 * std::pow(10.0, -digits);
  }

  double value;
  double half = 0;
};

struct PRange {
  double low = 1;
  double high = 0;
};

// p over what the cells may have been before rounding, by a grid that contains the corners.
template <class Test>
PRange p_range(const std::vector<Cell>& cells, const Test& test) {
  const int steps = 5;
  int combinations = 1;
  for (std::size_t k = 0; k < cells.size(); ++k) combinations *= steps;
  PRange range;
  for (int n = 0; n < combinations; ++n) {
    std::vector<double> values;
    for (int rest = n; const Cell& cell : cells) {
      values.push_back(cell.value + cell.half * (2.0 * (rest % steps) / (steps - 1) - 1));
      rest /= steps;
    }
    const double p = test(values);
    CHECK(p >= 0);
    range.low = std::min(range.low, p);
    range.high = std::max(range.high, p);
  }
  return range;
}

// The extra hours of sleep of ten patients on two drugs, from Student (1908).
const std::vector<double> first_drug = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
const std::vector<double> second_drug = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};

}  // namespace

TEST_CASE("mean and deviations") {
  const Sample sample = sample_of(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(sample.mean == 5);
  CHECK(sample.population_deviation == 2);
  CHECK(is_within(sample.sample_deviation, std::sqrt(32.0 / 7), 1e-15));
  CHECK(sample.count == 8);
  const Sample one = sample_of(std::vector<double>{3.5});
  CHECK(one.mean == 3.5);
  CHECK(one.population_deviation == 0);
  CHECK(std::isnan(one.sample_deviation));
  // 0.1 + 0.1 + 0.1 is not 0.3.
  const Sample equal = sample_of(std::vector<double>{0.1, 0.1, 0.1});
  CHECK(equal.mean == 0.1);
  CHECK(equal.population_deviation == 0);
  CHECK(equal.sample_deviation == 0);
  const Sample none = sample_of({});
  CHECK(std::isnan(none.mean));
  CHECK(std::isnan(none.population_deviation));
  CHECK(std::isnan(none.sample_deviation));
  CHECK(none.count == 0);
  for (const double bad : {no_number, HUGE_VAL, -HUGE_VAL}) {
    for (const std::vector<double>& values :
         {std::vector{1.0, bad}, std::vector{bad, 1.0}, std::vector{bad}}) {
      const Sample found = sample_of(values);
      CHECK(std::isnan(found.mean));
      CHECK(std::isnan(found.population_deviation));
      CHECK(std::isnan(found.sample_deviation));
    }
  }
}

TEST_CASE("a large mean does not hide the deviation") {
  const Sample sample = sample_of(std::vector<double>{1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4});
  CHECK(is_within(sample.sample_deviation, std::sqrt(5.0 / 3), 1e-15));
}

TEST_CASE("either deviation of a printed mean gives the other") {
  const Sample sample = sample_of(first_drug);
  const Sample population = with_population_deviation(sample.mean, sample.population_deviation, 10);
  const Sample corrected = with_sample_deviation(sample.mean, sample.sample_deviation, 10);
  CHECK(population.population_deviation == sample.population_deviation);
  CHECK(is_within(population.sample_deviation, sample.sample_deviation, 1e-15));
  CHECK(is_within(corrected.population_deviation, sample.population_deviation, 1e-15));
  CHECK(corrected.sample_deviation == sample.sample_deviation);
  for (const Index count : {-1, 0, 1}) {
    for (const Sample& bad :
         {with_population_deviation(1, 2, count), with_sample_deviation(1, 2, count)}) {
      CHECK(std::isnan(bad.population_deviation));
      CHECK(std::isnan(bad.sample_deviation));
    }
  }
}

TEST_CASE("tails of Student's t in closed form") {
  for (const double t : {-1e3, -2.0, -0.3, 0.0, 1e-8, 0.7, 3.0, 50.0, 1e6}) {
    CAPTURE(t);
    const double cauchy = 0.5 - std::atan(t) / std::numbers::pi;
    const double two = 0.5 - t / (2 * std::sqrt(2 + t * t));
    const double angle = std::atan(t / std::sqrt(3.0));
    const double three = 0.5 - (angle + std::sin(2 * angle) / 2) / std::numbers::pi;
    CHECK(is_within(student_upper_tail(t, 1), cauchy, t == 1e-8 ? 1e-9 : 1e-15));
    CHECK(is_within(student_upper_tail(t, 2), two, 1e-15));
    CHECK(is_within(student_upper_tail(t, 3), three, 1e-15));
  }
}

TEST_CASE("tails of Student's t in 40 digits") {
  // ½ I_x(ν/2, ½) by mpmath.
  struct Known {
    double t, degrees, p;
  };
  for (const Known& known : {Known{0.5, 1, 0.35241638234956672582},
                             {1e8, 1, 3.1830988618379066093e-9},
                             {-3, 1.5, 0.93322612287254336731},
                             {2.25, 3.0625, 0.054062906688366000844},
                             {4, 5.5, 0.0042524577874150366751},
                             {12, 5.75, 0.000013754256634212921929},
                             {30, 4, 3.6764280488306610623e-6},
                             {1e-9, 7.5, 0.49999999961409926444},
                             {1.5, 1000.25, 0.066964979974228740989},
                             {9, 1e6, 1.1304865167464301865e-19},
                             {25, 300, 1.2398213559738394978e-75},
                             {1e50, 4, 2.9999999999999990844e-200},
                             {-1e-3, 2.125, 0.50035593659344330067}}) {
    CAPTURE(known.t);
    CHECK(is_within(student_upper_tail(known.t, known.degrees), known.p, 1e-13 * known.p));
  }
  // Values that every table of the distribution has.
  CHECK(is_within(student_upper_tail(2.015048, 5), 0.05, 1e-7));
  CHECK(is_within(student_upper_tail(2.228139, 10), 0.025, 1e-7));
}

TEST_CASE("tails of Student's t agree with an integral of its density") {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> log_t(-3, 4);
  std::uniform_real_distribution<double> log_degrees(0, 3.4);
  for (int n = 0; n < 200; ++n) {
    const double t = std::exp(log_t(random)) * (n % 3 == 0 ? -1 : 1);
    const double degrees = std::exp(log_degrees(random));
    CAPTURE(t);
    CAPTURE(degrees);
    const double p = student_upper_tail(t, degrees);
    CHECK(is_within(p, plain_tail(t, degrees), 1e-9 * p));
    CHECK(is_within(p + student_upper_tail(-t, degrees), 1, 1e-15));
  }
}

TEST_CASE("no tail where it has no meaning") {
  for (const double bad : {no_number, HUGE_VAL, -HUGE_VAL}) {
    CHECK(std::isnan(student_upper_tail(bad, 3)));
    CHECK(std::isnan(student_upper_tail(1, bad)));
  }
  CHECK(std::isnan(student_upper_tail(1, 0)));
  CHECK(std::isnan(student_upper_tail(1, -2)));
  CHECK(student_upper_tail(1e300, 3) == 0);
  CHECK(student_upper_tail(-1e300, 3) == 1);
}

TEST_CASE("the sleep of Student's patients") {
  // R's t.test prints t = 1.8608, df = 17.776, p = 0.07939 and, paired, t = 4.0621, df = 9,
  // p = 0.002833, both two-sided.
  const TTest welch = welch_one_sided(sample_of(first_drug), sample_of(second_drug));
  CHECK(is_within(welch.t, 1.8608, 5e-5));
  CHECK(is_within(welch.degrees, 17.776, 5e-4));
  CHECK(is_within(2 * welch.p, 0.07939, 5e-6));
  std::vector<double> gains;
  for (std::size_t k = 0; k < first_drug.size(); ++k) {
    gains.push_back(second_drug[k] - first_drug[k]);
  }
  const TTest paired = one_sample_one_sided(sample_of(gains), 0);
  CHECK(is_within(paired.t, 4.0621, 5e-5));
  CHECK(paired.degrees == 9);
  CHECK(is_within(2 * paired.p, 0.002833, 5e-7));
}

TEST_CASE("Welch's test agrees with its printed formula, and changes sign with its arguments") {
  std::mt19937_64 random(5);
  for (int n = 0; n < 200; ++n) {
    const auto drawn = [&] {
      std::vector<double> values(std::uniform_int_distribution<std::size_t>(2, 12)(random));
      std::normal_distribution<double> normal(
          std::normal_distribution<double>(3, 1)(random),
          std::exp(std::normal_distribution<double>(0, 2)(random)));
      for (double& value : values) value = normal(random);
      return values;
    };
    const std::vector<double> a = drawn();
    const std::vector<double> b = drawn();
    const TTest found = welch_one_sided(sample_of(a), sample_of(b));
    const TTest expected = plain_welch(a, b);
    CHECK(is_within(found.t, expected.t, 1e-12 * (1 + std::abs(expected.t))));
    CHECK(is_within(found.degrees, expected.degrees, 1e-11 * expected.degrees));
    CHECK(is_within(found.p, expected.p, 1e-10));
    const TTest other = welch_one_sided(sample_of(b), sample_of(a));
    CHECK(other.t == -found.t);
    CHECK(is_within(other.degrees, found.degrees, 1e-14 * found.degrees));
    CHECK(is_within(other.p, 1 - found.p, 1e-14));
  }
}

TEST_CASE("a t-test does not depend on the unit, however small or large") {
  const Sample a = with_sample_deviation(3, 1, 4);
  const Sample b = with_sample_deviation(5, 2, 7);
  const TTest expected = welch_one_sided(a, b);
  for (const double unit : {1e-300, 1e-160, 1e160, 1e300}) {
    const TTest found = welch_one_sided(with_sample_deviation(3 * unit, unit, 4),
                                        with_sample_deviation(5 * unit, 2 * unit, 7));
    CHECK(is_within(found.t, expected.t, 1e-14));
    CHECK(is_within(found.degrees, expected.degrees, 1e-13));
    CHECK(is_within(found.p, expected.p, 1e-14));
  }
}

TEST_CASE("one deviation of 0 leaves the degrees of the other sample") {
  const TTest found =
      welch_one_sided(with_sample_deviation(1, 0, 9), with_sample_deviation(2, 0.5, 4));
  const TTest alone = one_sample_one_sided(with_sample_deviation(2, 0.5, 4), 1);
  CHECK(found.t == 4);
  CHECK(found.degrees == 3);
  CHECK(alone.t == 4);
  CHECK(alone.degrees == 3);
  CHECK(found.p == alone.p);
  CHECK(one_sample_one_sided(with_sample_deviation(2, 0.5, 4), 2).p == 0.5);
}

TEST_CASE("no t-test where it has no meaning") {
  const Sample good = with_sample_deviation(1, 2, 4);
  const Sample constant = with_sample_deviation(1, 0, 4);
  CHECK(all_nan(welch_one_sided(constant, constant)));
  CHECK(all_nan(welch_one_sided(constant, with_sample_deviation(2, 0, 4))));
  CHECK(all_nan(one_sample_one_sided(constant, 1)));
  CHECK(all_nan(one_sample_one_sided(constant, 0)));
  for (const double bad : {no_number, HUGE_VAL, -HUGE_VAL})
    CHECK(all_nan(one_sample_one_sided(good, bad)));
  const std::vector<Sample> bad_ones = {
      sample_of({}),
      sample_of(std::vector{1.0}),
      with_sample_deviation(no_number, 1, 4),
      with_sample_deviation(HUGE_VAL, 1, 4),
      with_sample_deviation(1, no_number, 4),
      with_sample_deviation(1, HUGE_VAL, 4),
      with_sample_deviation(1, -1, 4),
      with_population_deviation(1, no_number, 4),
      {1, 1, 1, 1},
      {1, 1, 1, 0},
      {1, 1, 1, std::numeric_limits<Index>::min()},
  };
  for (const Sample& bad : bad_ones) {
    CHECK(all_nan(welch_one_sided(bad, good)));
    CHECK(all_nan(welch_one_sided(good, bad)));
    CHECK(all_nan(welch_one_sided(bad, bad)));
    CHECK(all_nan(one_sample_one_sided(bad, 0)));
  }
}

TEST_CASE("SI's table 3 from its table 2 (MATHEMATICS.md §9, E4)") {
  struct Row {
    std::string sgd, sgd_pm, si, si_pm;
    double p, degrees, low, high;  // ± as population deviations
    double sample_p;               // as sample deviations, where they exclude the print
  };
  // wikitext-2, ptb and ptbc, each with 1, 3 and 6 layers; n = 4.
  for (const Row& row : {
           Row{"123.23", "0.36", "121.85", "0.46", .0036, 5.67, .0033, .0039, .0019},
           {"112.82", "1.18", "109.65", "2.07", .0360, 4.76, .0354, .0366, .0235},
           {"103.33", "1.11", "100.28", "0.80", .0050, 5.45, .0049, .0052, .0027},
           {"138.54", "0.77", "137.20", "0.73", .0357, 5.98, .0342, .0373, .0225},
           {"123.22", "1.22", "121.30", "0.71", .0335, 4.82, .0326, .0344, .0217},
           {"123.45", "1.74", "121.13", "0.48", .0503, 3.45, .0495, .0512, .0358},
           {"2.22", "0.002", "2.17", "0.02", .0111, 3.06, .0027, .0346, no_number},
           {"1.88", "0.01", "1.87", "0.01", .1333, 6.00, .0014, .5, no_number},
           {"1.80", "0.01", "1.75", "0.01", .0004, 6.00, .0000, .0086, no_number},
       }) {
    CAPTURE(row.sgd);
    const std::vector<Cell> cells = {Cell(row.si), Cell(row.si_pm), Cell(row.sgd),
                                     Cell(row.sgd_pm)};
    const auto population = [](const std::vector<double>& x) {
      return welch_one_sided(with_population_deviation(x[0], x[1], 4),
                             with_population_deviation(x[2], x[3], 4));
    };
    const TTest found =
        population({cells[0].value, cells[1].value, cells[2].value, cells[3].value});
    CHECK(is_within(found.p, row.p, 5e-5));
    CHECK(is_within(found.degrees, row.degrees, 5e-3));
    const PRange range =
        p_range(cells, [&](const std::vector<double>& x) { return population(x).p; });
    CHECK(is_within(range.low, row.low, 5e-5));
    CHECK(is_within(range.high, row.high, 5e-5));
    if (std::isnan(row.sample_p)) continue;
    const TTest other = welch_one_sided(with_sample_deviation(cells[0].value, cells[1].value, 4),
                                        with_sample_deviation(cells[2].value, cells[3].value, 4));
    CHECK(is_within(other.p, row.sample_p, 5e-5));
  }
}

TEST_CASE("SI's table 5 from its table 4 (MATHEMATICS.md §9, E6)") {
  struct Row {
    std::string adam, decoder, pm;
    double p, low, high;
  };
  for (const Row& row : {Row{"34.79", "35.33", "0.12", .0022, .0018, .0026},
                         {"41.58", "41.84", "0.12", .0165, .0134, .0203},
                         {"33.64", "34.21", "0.37", .0379, .0353, .0407},
                         {"28.40", "29.05", "0.11", .0010, .0008, .0012}}) {
    CAPTURE(row.adam);
    const auto p_of = [](const std::vector<double>& x) {
      return one_sample_one_sided(with_population_deviation(x[0], x[1], 4), x[2]).p;
    };
    const std::vector<Cell> cells = {Cell(row.decoder), Cell(row.pm), Cell(row.adam)};
    CHECK(is_within(p_of({cells[0].value, cells[1].value, cells[2].value}), row.p, 5e-5));
    const PRange range = p_range(cells, p_of);
    CHECK(is_within(range.low, row.low, 5e-5));
    CHECK(is_within(range.high, row.high, 5e-5));
  }
}

TEST_CASE("EA's table 3 from its standard errors of five runs") {
  const auto above = [](double one, double one_error, double other, double other_error) {
    return welch_one_sided(with_sample_deviation(one, one_error * std::sqrt(5.0), 5),
                           with_sample_deviation(other, other_error * std::sqrt(5.0), 5))
        .p;
  };
  CHECK(is_within(above(38.02, .07, 38.19, .05), .0437, 5e-5));
  CHECK(is_within(above(18.93, .10, 19.09, .07), .1152, 5e-5));
  CHECK(is_within(above(35.25, .09, 35.52, .06), .0207, 5e-5));
}

TEST_CASE("intervals end where the tests have half of what the confidence leaves") {
  const Sample a = sample_of(std::vector{1.0, 2.5, 2.0, 4.0});
  const Sample b = sample_of(std::vector{0.5, 0.25, 1.0});
  for (const double confidence : {0.5, 0.95, 0.999}) {
    const Interval means = welch_interval(a, b, confidence);
    const Interval mean = mean_interval(a, confidence);
    CHECK(is_within((means.low + means.high) / 2, a.mean - b.mean, 1e-14));
    CHECK(is_within((mean.low + mean.high) / 2, a.mean, 1e-14));
    // A difference that is smaller by the lower end may be chance alone.
    Sample moved = a;
    moved.mean -= means.low;
    CHECK(is_within(welch_one_sided(b, moved).p, (1 - confidence) / 2, 1e-12));
    CHECK(is_within(one_sample_one_sided(a, mean.low).p, (1 - confidence) / 2, 1e-12));
  }
  CHECK(std::isnan(mean_interval(sample_of(std::vector{1.0, 1.0}), 0.95).low));
  CHECK(std::isnan(welch_interval(a, sample_of(std::vector{1.0}), 0.95).high));
}

TEST_CASE("binomial tails are sums, and their intervals end where the tails say so") {
  for (const Index n : {1, 2, 5, 17}) {
    for (const double p : {0.0, 0.1, 0.5, 1.0}) {
      // From the last term to the first.
      double tail = 0;
      double choices = 1;
      for (Index k = n; k >= 0; --k) {
        tail += choices * std::pow(p, k) * std::pow(1 - p, n - k);
        choices = choices * static_cast<double>(k) / static_cast<double>(n - k + 1);
        CHECK(is_within(binomial_upper_tail(k, n, p), tail, 1e-14));
      }
    }
    for (Index k = 0; k <= n; ++k) {
      const Interval share = proportion_interval(k, n, 0.9);
      if (k == 0) CHECK(share.low == 0);
      if (k > 0) CHECK(is_within(binomial_upper_tail(k, n, share.low), 0.05, 1e-10));
      if (k == n) CHECK(share.high == 1);
      if (k < n) CHECK(is_within(1 - binomial_upper_tail(k + 1, n, share.high), 0.05, 1e-10));
    }
  }
}
