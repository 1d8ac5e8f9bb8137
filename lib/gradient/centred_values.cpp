#include "gradient/centred_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gradient/adjoints.hpp"
#include "kernel/few_rows.hpp"
#include "pass/output.hpp"
#include "score/centred_pair.hpp"

namespace attn {
namespace {

// How many times larger than their differences the values' common part may be: four bits.
constexpr double most_in_common = 16;

template <class T>
double magnitude_of(MatrixView<const T> matrix, Index row) {
  return static_cast<double>(kernel::largest_magnitude(matrix.row(row), matrix.cols));
}

template <class T>
double distance(MatrixView<const T> matrix, Index row, const PooledVector<double>& from) {
  double largest = 0;
  for (std::size_t c = 0; c < from.size(); ++c) {
    const auto value = static_cast<double>(matrix(row, static_cast<Index>(c)));
    largest = std::max(largest, std::abs(value - from[c]));
  }
  return largest;
}

}  // namespace

template <class T>
CentredValues<T>::CentredValues(const Forward<T>& forward, int threads) : forward_(forward) {
  drop_empty_keys();
  // The sink's value is 0, which no centre moves; nor do rows sum to 1 after dropout.
  if (forward.options.sink == no_sink && !forward.dropout.any()) centre(threads);
}

template <class T>
void CentredValues<T>::drop_empty_keys() {
  const MatrixView<const T> v = forward_.v;
  const PooledVector<Index>& queries = forward_.attention->allowed.queries_of_key;
  if (std::find(queries.begin(), queries.end(), 0) == queries.end()) return;
  v_ = Buffer<T>(v.rows * v.cols);
  for (Index j = 0; j < v.rows; ++j) {
    T* to = v_.data() + j * v.cols;
    if (queries[static_cast<std::size_t>(j)] == 0) {
      std::fill_n(to, v.cols, T{0});
    } else {
      std::copy_n(v.row(j), v.cols, to);
    }
  }
  forward_.v = {v_.data(), v.rows, v.cols};
}

// Queries with a key and a non-zero dO.
template <class T>
PooledVector<Index> CentredValues<T>::live_queries() const {
  PooledVector<Index> live;
  for (Index i = 0; i < forward_.out.rows; ++i) {
    if (std::isinf(forward_.attention->potentials.row[static_cast<std::size_t>(i)])) continue;
    if (magnitude_of(forward_.grad_out, i) > 0) live.push_back(i);
  }
  return live;
}

template <class T>
void CentredValues<T>::centre(int threads) {
  const MatrixView<const T> out = forward_.out;
  const PooledVector<Index> live = live_queries();
  PooledVector<double> mean(static_cast<std::size_t>(out.cols), 0.0);
  for (const Index i : live) add_rows(out.row_range(i, 1), mean);
  double common = 0;
  for (double& m : mean) {
    m /= static_cast<double>(live.size());
    common = std::max(common, std::abs(m));
  }
  double apart = 0;
  for (const Index i : live) {
    const double from_mean = distance(out, i, mean);
    // NaN fails the comparison.
    if (!(from_mean <= magnitude_of(out, i) / 2)) return;
    apart = std::max(apart, from_mean);
  }
  constexpr T most = std::numeric_limits<T>::max() / 4;
  if (live.empty() || !(kernel::largest_magnitude(forward_.v) <= most)) return;
  centred_v_ = Buffer<T>(forward_.v.rows * forward_.v.cols);
  out_ = Buffer<T>(out.rows * out.cols);
  forward_.v = centred(forward_.v, mean, centred_v_);
  forward_.out = centred(out, mean, out_);
  if (is_small(*forward_.scores) || common <= most_in_common * apart) return;
  Output<T> output(forward_.v, {out_.data(), out.rows, out.cols});
  Potentials potentials = forward_.attention->potentials;
  show_weights<T>(*forward_.scores, potentials, forward_.options.hybrid, {&output}, threads);
}

template class CentredValues<float>;
template class CentredValues<double>;

}  // namespace attn
