#include <algorithm>
#include <cmath>
#include <limits>

#include "attnkit/error.hpp"
#include "kernel/terms.hpp"
#include "score/energy.hpp"
#include "score/mlp_arguments.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

template <class T>
class MlpEnergy final : public Energy<T> {
 public:
  MlpEnergy(MatrixView<const T> q, MatrixView<const T> k, const MlpWeights<T>& weights,
            double scale, int threads)
      : arguments_(mlp_arguments(q, k, weights, threads)), q_(arguments_.q()), k_(arguments_.k()) {
    for (const T w : weights.w2) {
      w2_.push_back(static_cast<T>(scale * static_cast<double>(w)));
      bound_ += std::abs(static_cast<double>(w2_.back()));
    }
    find_overflows();
  }

  Index rows() const override { return q_.rows; }
  Index cols() const override { return k_.cols; }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    const MatrixView<const T> keys(k_.data + range.col0, k_.rows, range.cols, k_.row_stride);
    kernel::tanh_energy(q_.row_range(range.row0, range.rows), keys, w2_.data(), out);
    if (overflown_rows_.empty()) return;
    for (Index i = 0; i < range.rows; ++i) {
      for (Index j = 0; j < range.cols; ++j) {
        if (overflown_rows_[static_cast<std::size_t>(range.row0 + i)] != 0 ||
            overflown_cols_[static_cast<std::size_t>(range.col0 + j)] != 0) {
          out(i, j) = std::numeric_limits<T>::quiet_NaN();
        }
      }
    }
  }

  double bound() const override {
    return overflown_rows_.empty() ? bound_ : std::numeric_limits<double>::infinity();
  }

 private:
  // tanh would turn an infinite argument into ±1, and SIMD code might turn a NaN into a number.
  void find_overflows() {
    const auto overflown = [](T x) { return !(std::abs(x) <= std::numeric_limits<T>::max() / 4); };
    const auto any_in = [&](const MatrixView<T>& half) {
      return std::any_of(half.data, half.data + half.rows * half.cols, overflown);
    };
    if (!any_in(q_) && !any_in(k_)) return;
    overflown_rows_.assign(static_cast<std::size_t>(q_.rows), 0);
    overflown_cols_.assign(static_cast<std::size_t>(k_.cols), 0);
    for (Index i = 0; i < q_.rows; ++i) {
      const bool any = std::any_of(q_.row(i), q_.row(i) + q_.cols, overflown);
      overflown_rows_[static_cast<std::size_t>(i)] = any ? 1 : 0;
    }
    for (Index a = 0; a < k_.rows; ++a) {
      for (Index j = 0; j < k_.cols; ++j) {
        if (overflown(k_(a, j))) overflown_cols_[static_cast<std::size_t>(j)] = 1;
      }
    }
  }

  MlpArguments<T> arguments_;
  MatrixView<T> q_;     // W1q q + b1, (Lq, A)
  MatrixView<T> k_;     // W1k k, (A, Lk)
  PooledVector<T> w2_;  // scale included
  double bound_ = 0;
  PooledVector<std::uint8_t> overflown_rows_;  // empty: no argument is beyond the format
  PooledVector<std::uint8_t> overflown_cols_;
};

}  // namespace

template <class T>
std::unique_ptr<Energy<T>> make_mlp_energy(MatrixView<const T> q, MatrixView<const T> k,
                                           const MlpWeights<T>& weights, double scale,
                                           int threads) {
  const Index hidden = weights.w1.rows;
  if (weights.w1.cols != q.cols + k.cols) {
    throw Error(Failure::input, "w1 is " + to_string(Shape{hidden, weights.w1.cols}) +
                                    ", expected (A, " + std::to_string(q.cols + k.cols) +
                                    ") for the widths of q and k together");
  }
  if (static_cast<Index>(weights.w2.size()) != hidden) {
    throw Error(Failure::input, "w2 has " + std::to_string(weights.w2.size()) +
                                    " elements, expected " + std::to_string(hidden) + " as w1");
  }
  if (!weights.bias.empty() && static_cast<Index>(weights.bias.size()) != hidden) {
    throw Error(Failure::input, "b1 has " + std::to_string(weights.bias.size()) +
                                    " elements, expected " + std::to_string(hidden) + " as w1");
  }
  return std::make_unique<MlpEnergy<T>>(q, k, weights, scale, threads);
}

std::int64_t mlp_energy_bytes(Index rows, Index cols, Index hidden, std::size_t element_size) {
  return (rows + cols + 1) * hidden * static_cast<std::int64_t>(element_size);
}

template std::unique_ptr<Energy<float>> make_mlp_energy(MatrixView<const float>,
                                                        MatrixView<const float>,
                                                        const MlpWeights<float>&, double, int);
template std::unique_ptr<Energy<double>> make_mlp_energy(MatrixView<const double>,
                                                         MatrixView<const double>,
                                                         const MlpWeights<double>&, double, int);

}  // namespace attn
