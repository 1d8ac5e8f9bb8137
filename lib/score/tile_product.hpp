#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "kernel/few_rows.hpp"
#include "kernel/packed.hpp"
#include "score/weight_dropout.hpp"
#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn {

/// out = scale · q B for the columns of packed keys from col0 on. col0 may be inside a vector,
/// where panels of very few keys begin.
template <class T>
void multiply_any_packed(T scale, MatrixView<const T> q, const kernel::Packed<T>& keys, Index col0,
                         MatrixView<T> out) {
  const Index before = col0 % kernel::packed_vector<T>();
  if (before == 0) return kernel::multiply_packed(scale, q, keys, col0, out);
  const Buffer<T> wide(out.rows * (before + out.cols));
  const MatrixView<T> whole(wide.data(), out.rows, before + out.cols);
  kernel::multiply_packed(scale, q, keys, col0 - before, whole);
  for (Index i = 0; i < out.rows; ++i) std::copy_n(whole.row(i) + before, out.cols, out.row(i));
}

/// Tiles of scale · q kᵀ for q (Lq, d) and k (Lk, d), whose memory must outlive the object; with
/// `dropout`, of M∘(scale · q kᵀ). With enough queries, k is packed once, at the first tile, for
/// the fastest kernel; the bits of a product then do not depend on the tile.
template <class T>
class TileProduct {
 public:
  TileProduct(MatrixView<const T> q, MatrixView<const T> k, T scale,
              const WeightDropout& dropout = {})
      : q_(q), k_(k), scale_(scale), dropout_(dropout) {}

  Index rows() const { return q_.rows; }
  Index cols() const { return k_.rows; }

  /// Thread-safe; the bits depend at most on the range.
  void fill(const TileRange& range, MatrixView<T> out) const {
    const auto queries = q_.row_range(range.row0, range.rows);
    if (kernel::worth_packing(q_.rows)) {
      multiply_any_packed(scale_, queries, packed(), range.col0, out);
    } else {
      kernel::few_rows_transposed(scale_, queries, k_.row_range(range.col0, range.cols), out);
    }
    if (dropout_.any()) dropout_.apply(range, out);
  }

  /// Writes the exponentials of the tile instead, for products of at most 80 in magnitude, and adds
  /// their sums: see kernel::multiply_exp_packed. Returns false, and does nothing, if this is not
  /// supported for the range.
  bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                         double* col_sum, double* row_product) const {
    if (!pays(range)) return false;
    kernel::multiply_exp_packed(scale_, q_.row_range(range.row0, range.rows), packed(), range.col0,
                                out, row_sum, col_sum, row_product);
    return true;
  }

  /// Bytes that a TileProduct allocates.
  static std::int64_t bytes(Index rows, Index cols, Index depth) {
    return kernel::worth_packing(rows) ? kernel::Packed<T>::bytes(depth, cols) : 0;
  }

 private:
  bool pays(const TileRange& range) const {
    return kernel::worth_packing(q_.rows) && range.col0 % kernel::packed_width<T>() == 0;
  }
  const kernel::Packed<T>& packed() const {
    std::call_once(packing_, [this] { packed_ = kernel::Packed<T>::of_transposed(k_); });
    return packed_;
  }

  MatrixView<const T> q_;
  MatrixView<const T> k_;
  T scale_;
  WeightDropout dropout_;
  mutable std::once_flag packing_;
  mutable kernel::Packed<T> packed_;
};

/// TileProduct::bytes for float32 (element_size 4) or float64 (8).
inline std::int64_t tile_product_bytes(Index rows, Index cols, Index depth,
                                       std::size_t element_size) {
  return element_size == sizeof(float) ? TileProduct<float>::bytes(rows, cols, depth)
                                       : TileProduct<double>::bytes(rows, cols, depth);
}

}  // namespace attn
