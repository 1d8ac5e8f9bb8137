#include "collapse/closed_form.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

struct Printed {
  long double unas;
  long double dnas;
};

// DN (12) with the corrected q (MATHEMATICS.md §9, E12).
Printed printed(long double r, long double a) {
  const long double s = std::exp(-2 * a * a);
  const long double q = (r + s) / (r * s + 1);
  const long double rest = 1 - s * s;
  return {2 * r * rest * a / ((1 + r * s) * (r + s)),
          2 * q * r * rest * a / ((q + r * s) * (r + s * q))};
}

double gap_derivative(double log_r, double a) {
  const long double h = 1e-4L;
  const auto gap = [&](long double x) {
    const Printed p = printed(std::exp(x), a);
    return p.dnas - p.unas;
  };
  return static_cast<double>((gap(log_r + h) - gap(log_r - h)) / (2 * h));
}

}  // namespace

TEST_CASE("known distances") {
  const collapse::Distances equal = collapse::distances(1, 1);
  CHECK(std::abs(equal.unas - 1.52318831191153) <= 1e-13);
  CHECK(equal.dnas == equal.unas);
  CHECK(equal.gap == 0);
  const collapse::Distances ten = collapse::distances(10, 1);
  CHECK(std::abs(ten.unas - 0.823145680143430) <= 1e-13);
  CHECK(std::abs(ten.dnas - 1.411642138288099) <= 1e-13);
}

TEST_CASE("distances agree with the printed formulas") {
  Random random(81);
  std::uniform_real_distribution<double> log_r(-60, 60);
  std::uniform_real_distribution<double> log_a(-3, 2.2);
  for (int n = 0; n < 20000; ++n) {
    const double r = std::exp(log_r(random));
    const double a = std::exp(log_a(random));
    CAPTURE(r);
    CAPTURE(a);
    const collapse::Distances found = collapse::distances(r, a);
    const Printed expected = printed(r, a);
    // 1 − s² in the printed form loses digits for small a, even in long double.
    const double limit = 2.3e-16 * (10 + 4 * a * a) + 1.1e-19 * 10 / (a * a);
    const auto near = [&](double value, long double exact) {
      return std::abs(value - exact) <= limit * exact;
    };
    CHECK(near(found.unas, expected.unas));
    CHECK(near(found.dnas, expected.dnas));
    const long double gap = expected.dnas - expected.unas;
    CHECK(found.gap >= 0);
    // The subtraction has an error of its own.
    CHECK(std::abs(found.gap - gap) <=
          4 * limit * gap + 1e-18L * (1 + 1 / (a * a)) * expected.dnas);
    CHECK(found.dnas >= found.unas * (1 - 4.5e-16));
    const collapse::Distances inverse = collapse::distances(1 / r, a);
    CHECK(std::abs(inverse.unas - found.unas) <= 4e-15 * found.unas);
    CHECK(std::abs(inverse.dnas - found.dnas) <= 4e-15 * found.dnas);
  }
}

TEST_CASE("the gap is accurate however near r is to 1") {
  // Differences of the printed formulas in 60 digits.
  struct Known {
    double r, a, gap;
  };
  for (const Known& known : {Known{1.00000000001, 1.0, 1.5083531431615105e-23},
                             {1.0000000000000002, 0.5, 1.2198212074890272e-33},
                             {0.9999999999, 2.0, 1.3400509261323668e-23},
                             {1.001, 0.01, 9.9895053336288655e-17},
                             {3.0, 0.3, 0.0017827385951447708},
                             {1e-07, 1.5, 0.0024016335690017793}}) {
    CAPTURE(known.r);
    const double error = std::abs(collapse::distances(known.r, known.a).gap - known.gap);
    CHECK(error <= 1.12e-16 * (10 + 4 * known.a * known.a) * known.gap);
  }
}

TEST_CASE("the printed formulas at r agree with the used ones at 1/r") {
  Random random(85);
  std::uniform_real_distribution<double> log_r(0, 690);
  std::uniform_real_distribution<double> log_a(-6, 5);
  for (int n = 0; n < 20000; ++n) {
    const double r = std::exp(log_r(random) * (n % 2 == 0 ? 1 : 0.05));
    const double a = std::exp(log_a(random));
    CAPTURE(r);
    CAPTURE(a);
    const collapse::Distances found = collapse::distances(1 / r, a);
    const collapse::Distances other = collapse::printed_distances(r, a);
    // Below the least normal number, one spacing is this large.
    CHECK(std::abs(found.unas - other.unas) <= 5e-15 * std::max(other.unas, 2.3e-308));
    CHECK(std::abs(found.dnas - other.dnas) <= 5e-15 * std::max(other.dnas, 2.3e-308));
    if (other.unas < 1e-300) continue;
    const Printed expected = printed(r, a);
    const double limit = 2.3e-16 * (10 + 4 * a * a) + 1.1e-19 * 10 / (a * a);
    CHECK(std::abs(other.unas - expected.unas) <= limit * expected.unas);
    CHECK(std::abs(other.dnas - expected.dnas) <= limit * expected.dnas);
  }
  const collapse::Distances ends[] = {collapse::printed_distances(1e300, 1e100),
                                      collapse::printed_distances(1e300, 1e-3)};
  CHECK(ends[0].unas == 2e100);
  CHECK(std::isfinite(ends[1].dnas));
  for (const double bad : {0.5, 1e302, std::nan("")}) {
    CHECK(std::isnan(collapse::printed_distances(bad, 1).unas));
  }
}

TEST_CASE("nothing overflows at the ends of the range; beyond them the result is NaN") {
  for (const double r : {1e-300, 1e-150, 1.0, 1e150, 1e300}) {
    for (const double a : {1e-3, 1.0, 30.0, 1e100, 1e300}) {
      CAPTURE(r);
      CAPTURE(a);
      const collapse::Distances found = collapse::distances(r, a);
      CHECK(std::isfinite(found.unas));
      CHECK(found.dnas >= found.unas);
      CHECK(found.dnas <= 2 * a * (1 + 1e-15));
    }
  }
  // Far apart, the groups do not move.
  CHECK(collapse::distances(1e300, 100).unas == 200);
  const double nan = std::nan("");
  for (const double bad : {0.0, -1.0, 1e302, HUGE_VAL, nan}) {
    CHECK(std::isnan(collapse::distances(bad, 1).unas));
    CHECK(std::isnan(collapse::distances(1, bad).gap));
    CHECK(std::isnan(collapse::gap_peak(bad).gap));
  }
}

TEST_CASE("the gap peaks and then vanishes (E11)") {
  // r to the printed digits.
  CHECK(std::abs(std::exp(collapse::gap_peak(0.5).log_r) - 7.1) <= 0.05);
  CHECK(std::abs(std::exp(collapse::gap_peak(1).log_r) - 26.8) <= 0.05);
  CHECK(std::abs(std::exp(collapse::gap_peak(2).log_r) - 1.6e5) <= 0.05e5);
  for (const double a : {0.05, 0.3, 0.5, 1.0, 1.5, 2.0}) {
    CAPTURE(a);
    const collapse::Peak peak = collapse::gap_peak(a);
    CHECK(gap_derivative(peak.log_r - 0.01, a) > 0);
    CHECK(gap_derivative(peak.log_r + 0.01, a) < 0);
    const double r = std::exp(peak.log_r);
    CHECK(std::abs(peak.gap - collapse::distances(r, a).gap) <= 1e-13 * peak.gap);
    for (const double factor : {0.1, 0.9, 1.1, 10.0}) {
      CHECK(collapse::distances(r * factor, a).gap < peak.gap);
    }
    CHECK(collapse::distances(1e30, a).gap < 1e-6 * peak.gap);
  }
}

TEST_CASE("the position of the peak is accurate to the last digits") {
  // Roots of the printed formulas' derivative in 60 digits; the first is close to log(3 + 2√2).
  for (const auto& [a, log_r] : {std::pair<double, double>{0.001, 1.76274770437014037},
                                 {0.1, 1.76814839153814254},
                                 {0.5, 1.95825988210719748},
                                 {1, 3.28677437466510361},
                                 {2, 12.0005155603579988}}) {
    CHECK(std::abs(collapse::gap_peak(a).log_r - log_r) <=
          1e-14 * std::max(1.0, 1 / (a * a)) * log_r);
  }
}

TEST_CASE("far apart the gap peaks at s^(-3/2), where it equals the whole distance") {
  for (const double a : {6.0, 20.0, 1e3, 1e50}) {
    CAPTURE(a);
    const collapse::Peak peak = collapse::gap_peak(a);
    // The next term of the logarithm is that of 1 + s.
    CHECK(std::abs(peak.log_r - 3 * a * a) <= 1e-14 * 3 * a * a);
    CHECK(std::abs(peak.gap - 2 * a) <= 1e-15 * 2 * a);
  }
}
