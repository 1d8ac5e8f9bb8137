#include "scheme/centred_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel/few_rows.hpp"
#include "scheme/adjoints.hpp"
#include "scheme/output.hpp"
#include "score/centred_pair.hpp"

namespace attn {
namespace {

// How many times as large as what the values differ by their common part may be: four bits.
constexpr double most_in_common = 16;

template <class T>
bool is_moderate(MatrixView<const T> matrix) {
  return kernel::largest_magnitude(matrix) <= std::numeric_limits<T>::max() / 4;
}

}  // namespace

template <class T>
CentredValues<T>::CentredValues(const Forward<T>& forward, int threads) : forward_(forward) {
  if (forward.out.rows == 0 || !is_moderate(forward.v) || !is_moderate(forward.out)) return;
  std::vector<double> mean(static_cast<std::size_t>(forward.out.cols), 0.0);
  add_rows(forward.out, mean);
  for (double& m : mean) m /= static_cast<double>(forward.out.rows);
  v_ = Buffer<T>(forward.v.rows * forward.v.cols);
  out_ = Buffer<T>(forward.out.rows * forward.out.cols);
  forward_.v = centred(forward.v, mean, v_);
  forward_.out = centred(forward.out, mean, out_);
  double common = 0;
  for (const double m : mean) common = std::max(common, std::abs(m));
  if (is_small(*forward.scores) ||
      common <= most_in_common * static_cast<double>(kernel::largest_magnitude(forward_.out))) {
    return;
  }
  Output<T> output(forward_.v, {out_.data(), forward.out.rows, forward.out.cols});
  Potentials potentials = forward.attention->potentials;
  show_weights<T>(*forward.scores, potentials, forward.options.hybrid, {&output}, threads);
}

template class CentredValues<float>;
template class CentredValues<double>;

}  // namespace attn
