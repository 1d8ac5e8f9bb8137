#include <doctest/doctest.h>

#include "guarded.hpp"
#include "kernel/tile.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;
using attn::testing::Guarded;

namespace {

template <class T>
void check_exp_columns(Random& random, Index rows, Index cols, bool with_f) {
  Guarded<double> f(1, rows);
  Guarded<double> shift(1, cols);
  Guarded<double> sum(1, cols);
  f.fill([&] { return with_f ? potential(random) : 0; });
  shift.fill([&] {
    return with_f ? potential(random) : static_cast<double>(static_cast<T>(uniform(random, -9, 9)));
  });
  sum.fill([&] { return uniform(random, 0, 2); });
  Guarded<T> s(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      s.view()(i, j) = score_near<T>(random, f.data()[i] + shift.data()[j]);
    }
  }
  const Guarded<T> before = s;
  const Guarded<double> start = sum;
  kernel::exp_columns(s.view(), with_f ? f.data() : nullptr, shift.data(), sum.data());

  Worst exponentials;
  Worst sums;
  for (Index j = 0; j < cols; ++j) {
    long double total = start.data()[j];
    for (Index i = 0; i < rows; ++i) {
      const T e = s.view()(i, j);
      add_exponential(exponentials, e, before.view()(i, j), f.data()[i], shift.data()[j], !with_f);
      total += e;
    }
    sums.add(sum.data()[j], total, sum_error<T>(total, rows));
  }
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(with_f);
  CHECK(exponentials.value() <= 1);
  CHECK(sums.value() <= 1);
  CHECK(s.intact());
  CHECK(sum.intact());
}

// Calls `body(rows, cols, random)` for all pairs of sizes.
template <class Body>
void for_all_sizes(unsigned seed, const Body& body) {
  Random random(seed);
  for (const Index rows : tile_sizes) {
    for (const Index cols : tile_sizes) {
      CAPTURE(rows);
      CAPTURE(cols);
      body(rows, cols, random);
    }
  }
}

template <class T>
Guarded<T> random_tile(Index rows, Index cols, Random& random) {
  Guarded<T> tile(rows, cols);
  tile.fill([&] { return score<T>(random); });
  return tile;
}

template <class T>
Guarded<T> positive_tile(Index rows, Index cols, Random& random) {
  Guarded<T> tile(rows, cols);
  tile.fill([&] { return one_in(random, 6) ? T{0} : static_cast<T>(uniform(random, 0, 1)); });
  return tile;
}

Guarded<double> random_vector(Index n, double largest, Random& random) {
  Guarded<double> values(1, n);
  values.fill([&] { return one_in(random, 6) ? 0 : uniform(random, -largest, largest); });
  return values;
}

}  // namespace

TEST_CASE_TEMPLATE("exp_columns", T, float, double) {
  on_every_target([] {
    for_all_sizes(41, [](Index rows, Index cols, Random& random) {
      check_exp_columns<T>(random, rows, cols, one_in(random, 2));
    });
  });
}

TEST_CASE_TEMPLATE("column_max", T, float, double) {
  on_every_target([] {
    for_all_sizes(42, [](Index rows, Index cols, Random& random) {
      const Guarded<T> s = random_tile<T>(rows, cols, random);
      Guarded<double> f(1, rows);
      f.fill([&] { return potential(random); });
      Guarded<double> plain(1, cols);  // the previous contents take part
      plain.fill([&] { return one_in(random, 2) ? -infinity : uniform(random, -9, 9); });
      Guarded<double> shifted = plain;
      Guarded<double> want_plain = plain;
      Guarded<double> want_shifted = plain;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          const auto value = static_cast<double>(s.view()(i, j));
          want_plain.data()[j] = std::max(want_plain.data()[j], value);
          want_shifted.data()[j] = std::max(want_shifted.data()[j], value - f.data()[i]);
        }
      }
      kernel::column_max(s.view(), nullptr, plain.data());
      kernel::column_max(s.view(), f.data(), shifted.data());
      // One rounding to float64 and comparisons: exact, and the surroundings are unchanged.
      CHECK(plain == want_plain);
      CHECK(shifted == want_shifted);
    });
  });
}

TEST_CASE_TEMPLATE("scale_columns", T, float, double) {
  on_every_target([] {
    for_all_sizes(43, [](Index rows, Index cols, Random& random) {
      const Guarded<T> before = positive_tile<T>(rows, cols, random);
      const Guarded<double> factor = random_vector(cols, 3, random);
      Guarded<T> tile = before;
      kernel::scale_columns(tile.view(), factor.data());
      Worst worst;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          // One rounding of the factor to T and one of the product.
          const long double want = static_cast<long double>(before.view()(i, j)) * factor.data()[j];
          worst.add(tile.view()(i, j), want, 2.01L * rounding<T> * std::abs(want));
        }
      }
      CHECK(worst.value() <= 1);
      CHECK(tile.intact());
    });
  });
}

TEST_CASE_TEMPLATE("add_columns", T, float, double) {
  on_every_target([] {
    for_all_sizes(44, [](Index rows, Index cols, Random& random) {
      const Guarded<T> tile = positive_tile<T>(rows, cols, random);
      const Guarded<double> start = random_vector(cols, 3, random);
      Guarded<double> sum = start;
      kernel::add_columns(tile.view(), sum.data());
      Worst worst;
      for (Index j = 0; j < cols; ++j) {
        long double total = 0;
        for (Index i = 0; i < rows; ++i) total += tile.view()(i, j);
        const long double first = start.data()[j];
        worst.add(sum.data()[j], first + total, sum_error<T>(std::abs(first) + total, rows));
      }
      CHECK(worst.value() <= 1);
      CHECK(sum.intact());
    });
  });
}

TEST_CASE_TEMPLATE("add_outer", T, float, double) {
  on_every_target([] {
    for_all_sizes(45, [](Index rows, Index cols, Random& random) {
      // Energies before masking: finite.
      Guarded<T> before(rows, cols);
      before.fill([&] { return static_cast<T>(uniform(random, -1e4, 1e4)); });
      const Guarded<double> row = random_vector(rows, 1e4, random);
      const Guarded<double> col = random_vector(cols, 1e4, random);
      Guarded<T> tile = before;
      Guarded<T> want = before;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols; ++j) {
          const auto value = static_cast<double>(before.view()(i, j));
          want.view()(i, j) = static_cast<T>(value + (row.data()[i] + col.data()[j]));
        }
      }
      kernel::add_outer(tile.view(), row.data(), col.data());
      // The contract gives the order of the roundings: exact.
      CHECK(tile == want);
    });
  });
}

TEST_CASE_TEMPLATE("long columns are summed in float64", T, float, double) {
  // Adding 2e4 terms of 0.1 in float32 only has an error of up to 1e-4.
  constexpr Index rows = 20000;
  constexpr Index cols = 17;
  on_every_target([] {
    std::vector<T> tile(static_cast<std::size_t>(rows * cols), T{0});
    const MatrixView<T> view(tile.data(), rows, cols);
    const std::vector<double> shift(cols, 2);
    std::vector<double> exponentials(cols, 0);
    std::vector<double> sums(cols, 0);
    kernel::exp_columns(view, nullptr, shift.data(), exponentials.data());
    kernel::add_columns(view, sums.data());
    const long double want = static_cast<long double>(tile[0]) * rows;
    Worst worst;
    for (std::size_t j = 0; j < cols; ++j) {
      worst.add(exponentials[j], want, sum_error<T>(want, rows));
      worst.add(sums[j], want, sum_error<T>(want, rows));
    }
    CHECK(worst.value() <= 1);
  });
}
