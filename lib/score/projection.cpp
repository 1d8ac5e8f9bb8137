#include "score/projection.hpp"

#include <algorithm>
#include <cmath>

#include "attnkit/error.hpp"
#include "kernel/product.hpp"
#include "score/panel_product.hpp"

namespace attn {
namespace {

std::string shape(Index rows, Index cols) { return to_string(Shape{rows, cols}); }

template <class T>
void require_finite(MatrixView<const T> rows, Index first,
                    const std::function<std::string()>& what) {
  for (Index i = 0; i < rows.rows; ++i) {
    if (std::all_of(rows.row(i), rows.row(i) + rows.cols, [](T x) { return std::isfinite(x); })) {
      continue;
    }
    throw_beyond_range<T>("row " + std::to_string(first + i) + " of " + what() +
                          " is beyond the range of");
  }
}

}  // namespace

template <class T>
void project(MatrixView<const T> x, MatrixView<const T> w, std::span<const T> bias,
             MatrixView<T> out, int threads, const std::function<std::string()>& what) {
  if (x.cols != w.rows) {
    throw Error(Failure::input, what() + ": the weights are " + shape(w.rows, w.cols) +
                                    ", expected (" + std::to_string(x.cols) + ", d) for rows of " +
                                    std::to_string(x.cols));
  }
  if (!bias.empty() && static_cast<Index>(bias.size()) != w.cols) {
    throw Error(Failure::input, what() + ": the bias has " + std::to_string(bias.size()) +
                                    " elements, expected " + std::to_string(w.cols));
  }
  if (out.rows != x.rows || out.cols != w.cols) {
    throw Error(Failure::input, what() + " goes into " + shape(out.rows, out.cols) + ", expected " +
                                    shape(x.rows, w.cols));
  }
  for_panels(x.rows, threads, [&](Index first, Index count) {
    const auto rows = out.row_range(first, count);
    for (Index i = 0; i < count; ++i) {
      if (bias.empty()) {
        std::fill_n(rows.row(i), out.cols, T{0});
      } else {
        std::copy(bias.begin(), bias.end(), rows.row(i));
      }
    }
    kernel::multiply_add(x.row_range(first, count), w, rows);
    require_finite<T>(rows, first, what);
  });
}

template void project(MatrixView<const float>, MatrixView<const float>, std::span<const float>,
                      MatrixView<float>, int, const std::function<std::string()>&);
template void project(MatrixView<const double>, MatrixView<const double>, std::span<const double>,
                      MatrixView<double>, int, const std::function<std::string()>&);

}  // namespace attn
