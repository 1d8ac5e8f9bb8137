#include "scheme/multi_view.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "pass/output.hpp"
#include "score/projection.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

// Rows times weights, or the rows themselves if there are no weights.
template <class T>
class Projected {
 public:
  Projected(MatrixView<const T> rows, MatrixView<const T> weights, int threads,
            const std::string& what)
      : view_(rows) {
    if (weights.rows == 0 && weights.cols == 0) return;
    storage_ = Buffer<T>(rows.rows * weights.cols);
    const MatrixView<T> out(storage_.data(), rows.rows, weights.cols);
    project<T>(rows, weights, {}, out, threads, what);
    view_ = out;
  }
  MatrixView<const T> view() const { return view_; }

 private:
  Buffer<T> storage_;
  MatrixView<const T> view_;
};

template <class T>
void check(MatrixView<const T> primary, const MultiViewOptions<T>& options, MatrixView<T> out) {
  if (out.rows != primary.rows || out.cols != primary.cols) {
    throw Error(Failure::input, "the gathered views go into " +
                                    to_string(Shape{out.rows, out.cols}) + ", expected " +
                                    to_string(Shape{primary.rows, primary.cols}));
  }
  for (const std::span<const T> factors : {options.gain, options.shift}) {
    if (factors.empty() || static_cast<Index>(factors.size()) == primary.cols) continue;
    throw Error(Failure::input, "gain and shift have " + std::to_string(factors.size()) +
                                    " elements, expected " + std::to_string(primary.cols));
  }
  if (!(options.epsilon > 0 && std::isfinite(options.epsilon))) {
    throw Error(Failure::input,
                "epsilon is " + std::to_string(options.epsilon) + ", expected a finite number > 0");
  }
}

// The weights of `queries` over one view, and the features they gather.
template <class T>
Attention gather(MatrixView<const T> queries, const SecondaryView<T>& view,
                 const MultiViewOptions<T>& options, MatrixView<T> gathered, int threads) {
  const Projected<T> keys(view.features, view.wk, threads, "the keys of a view");
  if (keys.view().cols != queries.cols) {
    throw Error(Failure::input, "the keys of a view have " + std::to_string(keys.view().cols) +
                                    " features, expected " + std::to_string(queries.cols) +
                                    " as the queries");
  }
  const auto energy =
      make_product_energy<T>(EnergyKind::scaled_dot, queries, keys.view(), options.scale);
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  terms.mask = view.mask;
  Output<T> output(view.features, gathered);
  return attend<T>(Scores<T>(terms), options.scheme, {&output}, threads);
}

template <class T>
void normalise(const double* sum, const MultiViewOptions<T>& options, Index width, T* out) {
  double mean = 0;
  for (Index c = 0; c < width; ++c) mean += sum[c];
  mean /= static_cast<double>(width);
  double variance = 0;
  for (Index c = 0; c < width; ++c) variance += (sum[c] - mean) * (sum[c] - mean);
  variance /= static_cast<double>(width);
  const double factor = 1 / std::sqrt(variance + options.epsilon);
  for (Index c = 0; c < width; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const double gain = options.gain.empty() ? 1.0 : static_cast<double>(options.gain[at]);
    const double shift = options.shift.empty() ? 0.0 : static_cast<double>(options.shift[at]);
    out[c] = static_cast<T>(gain * ((sum[c] - mean) * factor) + shift);
  }
}

}  // namespace

template <class T>
std::vector<Attention> multi_view(MatrixView<const T> primary, MatrixView<const T> wq,
                                  std::span<const SecondaryView<T>> views,
                                  const MultiViewOptions<T>& options, MatrixView<T> out,
                                  int threads) {
  check(primary, options, out);
  const Index rows = primary.rows;
  const Index width = primary.cols;
  const Projected<T> queries(primary, wq, threads, "the queries of the primary view");
  Buffer<double> sums(rows * width);
  for (Index i = 0; i < rows; ++i) {
    for (Index c = 0; c < width; ++c) sums[i * width + c] = static_cast<double>(primary(i, c));
  }
  std::vector<Attention> found;
  const Buffer<T> storage(rows * width);
  const MatrixView<T> gathered(storage.data(), rows, width);
  for (const SecondaryView<T>& view : views) {
    if (view.features.cols != width) {
      throw Error(Failure::input, "a view has " + std::to_string(view.features.cols) +
                                      " features, expected " + std::to_string(width) +
                                      " as the primary one");
    }
    found.push_back(gather(queries.view(), view, options, gathered, threads));
    for (Index n = 0; n < rows * width; ++n) sums[n] += static_cast<double>(storage[n]);
  }
  for (Index i = 0; i < rows; ++i) {
    normalise(sums.data() + i * width, options, width, out.row(i));
  }
  return found;
}

template std::vector<Attention> multi_view(MatrixView<const float>, MatrixView<const float>,
                                           std::span<const SecondaryView<float>>,
                                           const MultiViewOptions<float>&, MatrixView<float>, int);
template std::vector<Attention> multi_view(MatrixView<const double>, MatrixView<const double>,
                                           std::span<const SecondaryView<double>>,
                                           const MultiViewOptions<double>&, MatrixView<double>,
                                           int);

}  // namespace attn
