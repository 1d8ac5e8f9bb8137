#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernel/online_softmax.hpp"
#include "pass/sink.hpp"
#include "score/scores.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Whether a softmax takes exponentials of the scores as they are: the scores are near zero, and
/// this is cheap to find out.
template <class T>
bool takes_plain_exponentials(const Scores<T>& scores) {
  return !scores.limits_are_expensive() && scores.near_zero();
}

/// The sums of a block of rows over the keys so far, tile by tile: an online softmax, or plain
/// exponentials.
template <class T>
struct RunningRows {
  bool near_zero = false;
  PooledVector<T> max;  ///< what the exponentials are relative to; 0 if near zero
  PooledVector<T> factor;
  PooledVector<double> sum;
  PooledVector<double> product;  ///< Σ_j E_ij log E_ij, if entropies are wanted

  /// Starts with no keys.
  void start(Index rows, bool scores_near_zero) {
    near_zero = scores_near_zero;
    const auto size = static_cast<std::size_t>(rows);
    max.assign(size, near_zero ? T{0} : -std::numeric_limits<T>::infinity());
    sum.assign(size, 0.0);
    product.assign(size, 0.0);
    factor.resize(size);
  }

  /// Fills a tile with the exponentials of its scores, and adds these to the sums. Returns true if
  /// the results of earlier tiles must be multiplied by `factor`.
  bool add(const Scores<T>& scores, const TileRange& range, MatrixView<T> tile,
           typename Scores<T>::Scratch& scratch, bool with_products) {
    double* const products = with_products ? product.data() : nullptr;
    if (near_zero) {
      scores.fill_exponentials(range, tile, scratch, sum.data(), nullptr, products);
      return false;
    }
    scores.fill(range, tile, scratch);
    return kernel::online_softmax(tile, max.data(), sum.data(), factor.data(), products);
  }

  /// After the last tile: writes f_i = LSE_j s_ij, joined by the sink, and leaves in `factor` the
  /// factors that turn exponentials into weights times `share`.
  void complete(double sink, double* f, double share = 1) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const bool empty = sum[i] == 0;
      f[i] = empty ? minus_infinity : static_cast<double>(max[i]) + std::log(sum[i]);
      factor[i] = empty ? T{0} : static_cast<T>(share / sum[i]);
      if (sink == no_sink || empty) continue;
      f[i] = with_sink(f[i], sink);
      factor[i] = static_cast<T>(share * std::exp(static_cast<double>(max[i]) - f[i]));
    }
  }

  /// After `complete`: `product` becomes −Σ_j π_ij log π_ij of the keys alone.
  void find_entropies(double sink, const double* f) {
    for (std::size_t i = 0; i < sum.size(); ++i) product[i] = entropy(i, sink, f[i]);
  }

  /// The factor that turns the exponentials of a tile, relative to `then`, into weights. The tile
  /// may have been filled before the row's maximum was met, or have nothing allowed.
  T factor_since(std::size_t row, T then) const {
    const double lag =
        then == max[row] ? 1 : std::exp(static_cast<double>(then) - static_cast<double>(max[row]));
    return static_cast<T>(lag * static_cast<double>(factor[row]));
  }

 private:
  double entropy(std::size_t i, double sink, double f) const {
    if (sum[i] == 0) return 0;
    // With one weight of nearly 1, rounding could leave less than 0.
    if (sink == no_sink) return std::max(0.0, std::log(sum[i]) - product[i] / sum[i]);
    // π_ij = E_ij exp(m_i − f_i).
    const double log_factor = static_cast<double>(max[i]) - f;
    return std::max(0.0, -std::exp(log_factor) * (product[i] + sum[i] * log_factor));
  }
};

}  // namespace attn
