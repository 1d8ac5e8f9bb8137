#include "paths/basis.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <tuple>

#include "path_problem.hpp"
#include "paths/rescale.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
constexpr double unit = std::numeric_limits<T>::epsilon() / 2;

template <class T>
void check_values(Index rows, Index columns) {
  const PathProblem<T> problem(rows, columns, 11);
  const Skeleton& skeleton = problem.skeleton;
  Matrix<T> values(basis_rows(rows), columns);
  basis_values<T>(problem.wq.view(), problem.wk.view(), skeleton, values.view(), 2);
  for (Index r = 0; r < values.rows; ++r) {
    for (Index c = 0; c < columns; ++c) {
      const Path path = basis_path(skeleton, rows, r, c);
      CHECK(values(r, c) == static_cast<T>(problem.wq(path.q, c) * problem.wk(path.k, c)));
      CHECK(path_value<T>(values.view(), skeleton, path) == values(r, c));
    }
  }
  // Three values, a quotient and a product, then rounding to T.
  Matrix<T> some(rows, columns);
  for (Index i = 0; i < rows; ++i) {
    path_values<T>(values.view(), skeleton, i, 0, some.view(), 2);
    for (Index j = 0; j < rows; ++j) {
      for (Index c = 0; c < columns; ++c) {
        const long double exact = static_cast<long double>(problem.wq(i, c)) * problem.wk(j, c);
        CHECK(std::abs(some(j, c) - exact) <= 6.1 * unit<T> * std::abs(exact));
      }
    }
  }
  std::vector<T> kept;
  for (Index c = 0; c < columns; ++c) kept.push_back(problem.wk(skeleton.k_of(c), c));
  Matrix<T> wq(rows, columns);
  Matrix<T> wk(rows, columns);
  basis_weights<T>(values.view(), skeleton, kept, wq.view(), wk.view(), 2);
  for (std::size_t n = 0; n < wq.values.size(); ++n) {
    CHECK(std::abs(wq.values[n] - problem.wq.values[n]) <=
          2.1 * unit<T> * std::abs(problem.wq.values[n]));
    CHECK(std::abs(wk.values[n] - problem.wk.values[n]) <=
          4.1 * unit<T> * std::abs(problem.wk.values[n]));
  }
}

}  // namespace

TEST_CASE("exponents of a path give its structure vector and its value") {
  for (const auto& [rows, columns] : path_sizes()) {
    if (rows * rows * columns > 1000) continue;
    const PathProblem<double> problem(rows, columns, 13);
    const Skeleton& skeleton = problem.skeleton;
    const PathProblem<float> single(rows, columns, 13);
    for (Index n = 0; n < rows * rows * columns; ++n) {
      const Path path{n / columns / rows, n / columns % rows, n % columns};
      const PathExponents found = path_exponents(skeleton, rows, path);
      // How often the path goes through each weight of its column: rows of W_Q, then of W_K.
      std::vector<int> structure(static_cast<std::size_t>(2 * rows), 0);
      long double value = 1;
      long double single_value = 1;
      bool ended = false;
      for (std::size_t f = 0; f < 3; ++f) {
        CHECK((found.row[f] < 0) == (found.exponent[f] == 0));
        ended = ended || found.row[f] < 0;
        if (found.row[f] < 0) continue;
        CHECK(!ended);
        CHECK(found.exponent[f] == (f < 2 ? 1 : -1));
        const Path factor = basis_path(skeleton, rows, found.row[f], path.col);
        structure[static_cast<std::size_t>(factor.q)] += found.exponent[f];
        structure[static_cast<std::size_t>(rows + factor.k)] += found.exponent[f];
        const auto power = [&](long double of_path) {
          return found.exponent[f] > 0 ? of_path : 1 / of_path;
        };
        value *= power(static_cast<long double>(problem.wq(factor.q, path.col)) *
                       problem.wk(factor.k, path.col));
        single_value *= power(static_cast<long double>(single.wq(factor.q, path.col)) *
                              single.wk(factor.k, path.col));
      }
      const bool in_basis = path.q == skeleton.q_of(path.col) || path.k == skeleton.k_of(path.col);
      CHECK((found.exponent[1] == 0) == in_basis);
      structure[static_cast<std::size_t>(path.q)] -= 1;
      structure[static_cast<std::size_t>(rows + path.k)] -= 1;
      CHECK(structure == std::vector<int>(structure.size(), 0));
      const auto compare = [&](long double made, long double exact) {
        CHECK(std::abs(made - exact) <= 1e-17L * std::abs(exact));
      };
      compare(value, static_cast<long double>(problem.wq(path.q, path.col)) *
                         problem.wk(path.k, path.col));
      compare(single_value,
              static_cast<long double>(single.wq(path.q, path.col)) * single.wk(path.k, path.col));
    }
  }
}

TEST_CASE_TEMPLATE("only the weights of the skeleton are set to 1", T, float, double) {
  for (const auto& [rows, columns] : path_sizes()) {
    const PathProblem<T> problem(rows, columns, 17);
    Matrix<T> wq = problem.wq;
    Matrix<T> wk = problem.wk;
    set_skeleton_to_one(wq.view(), wk.view(), problem.skeleton);
    for (Index i = 0; i < rows; ++i) {
      for (Index c = 0; c < columns; ++c) {
        const bool of_q = problem.skeleton.q_of(c) == i;
        const bool of_k = problem.skeleton.k_of(c) == i;
        CHECK(wq(i, c) == (of_q ? T{1} : problem.wq(i, c)));
        CHECK(wk(i, c) == (of_k ? T{1} : problem.wk(i, c)));
      }
    }
  }
}

TEST_CASE("skeletons") {
  const Skeleton cyclic = cyclic_skeleton(3, 4, 5);
  CHECK(cyclic.q == std::vector<Index>{1, 2, 0, 1, 2});
  CHECK(cyclic.k == cyclic.q);
  CHECK(cyclic_skeleton(1, 0, 2).q == std::vector<Index>{0, 0});
  Matrix<float> wq(3, 3);
  wq.values = {1, -4, 0, -2, 4, 0, 2, 3, 0};
  Matrix<float> wk(3, 3);
  wk.values = {0, 0, 1, 0, 5, 1, -1e-30F, 0, -1};
  // The first of several entries of equal size.
  const Skeleton largest = largest_skeleton<float>(wq.view(), wk.view());
  CHECK(largest.q == std::vector<Index>{1, 0, 0});
  CHECK(largest.k == std::vector<Index>{2, 1, 0});
  const auto zero = zero_in_skeleton<float>(wq.view(), wk.view(), largest);
  REQUIRE(zero.has_value());
  CHECK((zero->of_q && zero->row == 0 && zero->col == 2));
  const auto of_k = zero_in_skeleton<float>(wq.view(), wk.view(), {{0, 0, 0}, {1, 1, 1}});
  REQUIRE(of_k.has_value());
  CHECK((!of_k->of_q && of_k->row == 1 && of_k->col == 0));
  CHECK(!zero_in_skeleton<float>(wq.view(), wk.view(), {{0, 0}, {2, 1}}).has_value());
}

TEST_CASE("a basis has the skeleton's paths, and each path with one other weight") {
  Numbers numbers(10);
  for (const auto& [rows, columns] : path_sizes()) {
    const Skeleton skeleton = random_skeleton(rows, columns, numbers);
    const Index count = basis_rows(rows);
    std::set<std::tuple<Index, Index, Index>> seen;
    for (Index r = 0; r < count; ++r) {
      for (Index c = 0; c < columns; ++c) {
        const Path path = basis_path(skeleton, rows, r, c);
        CHECK(path.col == c);
        CHECK((path.q >= 0 && path.q < rows && path.k >= 0 && path.k < rows));
        CHECK((path.q == skeleton.q_of(c) || path.k == skeleton.k_of(c)));
        seen.insert({path.q, path.k, path.col});
      }
    }
    CHECK(static_cast<Index>(seen.size()) == columns * (2 * rows - 1));
    // In blocks of any length, on any number of threads.
    for (const Index block : {Index{1}, Index{2}, count}) {
      std::vector<std::int32_t> found(static_cast<std::size_t>(block * columns * 3));
      for (Index first = 0; first + block <= count; first += block) {
        basis_paths(skeleton, rows, first, block, found.data(), 2);
        for (Index n = 0; n < block * columns; ++n) {
          const Path path = basis_path(skeleton, rows, first + n / columns, n % columns);
          const std::int32_t* const triple = found.data() + n * 3;
          CHECK((triple[0] == path.q && triple[1] == path.k && triple[2] == path.col));
        }
      }
    }
  }
}

TEST_CASE("values give all paths, and with W_K's skeleton the weights, to rounding") {
  for (const auto& [rows, columns] : path_sizes()) {
    check_values<float>(rows, columns);
    check_values<double>(rows, columns);
  }
}

TEST_CASE("a path value within float64 is exact, however large or small the others are") {
  const auto value = [](double through_q, double skeleton, double through_k) {
    Matrix<double> values(3, 1);
    values.values = {skeleton, through_q, through_k};
    return path_value<double>(values.view(), {{0}, {0}}, {1, 1, 0});
  };
  const auto close = [](double found, double exact) {
    return std::abs(found / exact - 1) <=
           4.1 * unit<double>;  // two, besides those of 1e-60 and so on
  };
  CHECK(close(value(1e-200, 1e150, 1e290), 1e-60));
  CHECK(close(value(1e200, 1e-150, 1e-250), 1e100));
  CHECK(close(value(-1e-300, 1e-300, 1e-300), -1e-300));
  CHECK(value(1e-200, 1e150, 0) == 0);
  CHECK(value(0, 1e150, 1e290) == 0);
  CHECK(std::isinf(value(1e200, 1e-150, 1)));
  CHECK(!std::isfinite(value(1, 0, 1)));
  CHECK(value(0x1p-900, 0x1p200, 0x1p30) == 0x1p-1070);
}

TEST_CASE("rescaled columns have the same path values, bit for bit for powers of two") {
  PathProblem<double> problem(5, 4, 12);
  Matrix<double> before(9, 4);
  basis_values<double>(problem.wq.view(), problem.wk.view(), problem.skeleton, before.view(), 1);
  const std::vector<double> factors = {2, -0.25, -1, 1024};
  rescale_columns<double>(problem.wq.view(), factors, Rescaled::times);
  rescale_columns<double>(problem.wk.view(), factors, Rescaled::over);
  Matrix<double> after(9, 4);
  basis_values<double>(problem.wq.view(), problem.wk.view(), problem.skeleton, after.view(), 1);
  CHECK(before == after);
  Matrix<double> ones(1, 3);
  ones.values = {12, 12, 12};
  rescale_columns<double>(ones.view(), std::vector<double>{2, 3, -1}, Rescaled::over_square);
  CHECK(ones.values == std::vector<double>{3, 12.0 / 9, 12});
  rescale_columns<double>(ones.view(), std::vector<double>{2, 3, -1}, Rescaled::times_square);
  CHECK(ones.values == std::vector<double>{12, 12, 12});
}
