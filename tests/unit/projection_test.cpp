#include "score/projection.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "guarded.hpp"
#include "random_problem.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
reference::Matrix exact(const Guarded<T>& m) {
  reference::Matrix result(m.rows(), m.cols());
  for (Index i = 0; i < m.rows(); ++i) {
    for (Index j = 0; j < m.cols(); ++j) result(i, j) = m.view()(i, j);
  }
  return result;
}

}  // namespace

TEST_CASE_TEMPLATE("a projection agrees with the reference on any number of threads", T, float,
                   double) {
  Random random(131);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return static_cast<T>(normal(random)); };
  for (const Index length : {1, 2, 255, 256, 257, 700}) {
    for (const Index depth : {0, 1, 3, 64, 129}) {
      const Index width = random_size(random, 1, 70);
      Guarded<T> x(length, depth), w(depth, width), out(length, width);
      x.fill(draw);
      w.fill(draw);
      std::vector<T> bias;
      for (Index c = 0; depth != 3 && c < width; ++c) bias.push_back(draw());
      project<T>(x.view(), w.view(), bias, out.view(), 1, [] { return std::string("q"); });
      reference::Matrix b(static_cast<Index>(bias.size()), 1);
      for (std::size_t c = 0; c < bias.size(); ++c) b.values[c] = bias[c];
      const auto want = reference::project(exact(x), exact(w), b);
      bool close = true;
      for (Index i = 0; i < length; ++i) {
        for (Index c = 0; c < width; ++c) {
          long double size = bias.empty() ? 0 : std::abs(bias[static_cast<std::size_t>(c)]);
          for (Index d = 0; d < depth; ++d) {
            size += std::abs(static_cast<long double>(x.view()(i, d)) * w.view()(d, c));
          }
          const long double allowed =
              static_cast<long double>(depth + 1) * std::numeric_limits<T>::epsilon() / 2 * size;
          close = close && std::abs(out.view()(i, c) - want(i, c)) <= allowed;
        }
      }
      CAPTURE(length);
      CAPTURE(depth);
      CHECK(close);
      CHECK(out.intact());
      Guarded<T> again(length, width);
      project<T>(x.view(), w.view(), bias, again.view(), 3, [] { return std::string("q"); });
      CHECK(again == out);
    }
  }
}

TEST_CASE_TEMPLATE("projections that do not fit or exceed the format are refused", T, float,
                   double) {
  std::vector<T> numbers(24, T{1});
  std::vector<T> out(24);
  const auto view = [&](Index rows, Index cols) {
    return MatrixView<const T>(numbers.data(), rows, cols);
  };
  const auto error = [&](Index rows, Index cols, Index bias, Index width) {
    return thrown_error([&] {
      project<T>(view(2, 3), view(rows, cols), {numbers.data(), static_cast<std::size_t>(bias)},
                 {out.data(), 2, width}, 1, [] { return std::string("wq"); });
    });
  };
  CHECK(contains(error(4, 2, 0, 2).what(), "wq: the weights are (4, 2), expected (3, d)"));
  CHECK(contains(error(3, 2, 3, 2).what(), "wq: the bias has 3 elements, expected 2"));
  CHECK(contains(error(3, 2, 2, 4).what(), "wq goes into (2, 4), expected (2, 2)"));
  CHECK(error(3, 2, 2, 4).failure() == Failure::input);
  numbers[4] = std::numeric_limits<T>::max();
  numbers[5] = std::numeric_limits<T>::max();
  const Error beyond = error(3, 2, 0, 2);
  CHECK(beyond.failure() == Failure::numerical);
  CHECK(contains(beyond.what(), "row 1 of wq is beyond the range of"));
  CHECK(beyond.remedy() == (sizeof(T) == 4 ? Remedy::float64 : Remedy::none));
}
