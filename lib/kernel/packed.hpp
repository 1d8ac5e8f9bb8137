#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

/// Products of tiles with a right-hand factor that is packed once and used many times, as every
/// block of queries uses K and V. At small inner dimensions they are faster than BLAS, which packs
/// at each call. Dispatched at run time to the best instruction set of the CPU.
namespace attn::kernel {

/// Columns per panel of Packed on this CPU, except the last panel: the width of one register tile
/// of the product. A power of two, at most 64.
template <class T>
Index packed_width();

/// Numbers per vector: the columns of Packed are padded to a multiple of it.
template <class T>
Index packed_vector();

/// Whether the left-hand factor has enough rows to repay packing the right-hand one.
constexpr bool worth_packing(Index rows) { return rows >= 16; }

/// The columns of a panel from some column on: row k begins at `at` + k · stride.
template <class T>
struct PackedPanel {
  const T* at;
  Index stride;
  Index width;  ///< to the end of the panel, padding included
};

/// A matrix (depth, cols) in panels of packed_width<T>() columns. Columns left after whole panels
/// belong to the last panel, padded with zeros to whole vectors. Each panel is stored row by row.
template <class T>
class Packed {
 public:
  Packed() = default;

  /// Packs b (depth, cols).
  static Packed of(MatrixView<const T> b);

  /// Packs b with row k multiplied by factor[k] (rounded to T).
  static Packed of_scaled(MatrixView<const T> b, const double* factor);

  /// Packs bᵀ, for b (cols, depth), on up to `threads` threads.
  static Packed of_transposed(MatrixView<const T> b, int threads = 1);

  /// Bytes of a packed matrix of this size.
  static std::int64_t bytes(Index depth, Index cols);

  Index depth() const { return depth_; }
  Index cols() const { return cols_; }

  /// The panel of column `col`, a multiple of packed_vector<T>(), from that column and `row` on.
  PackedPanel<T> panel(Index col, Index row) const;

 private:
  Packed(Index depth, Index cols);
  static Index padded(Index cols);

  Index width_ = packed_width<T>();
  Index depth_ = 0;
  Index cols_ = 0;
  Index last_ = 0;  // the first column of the last panel
  Buffer<T> values_;
};

/// Packed::bytes for float32 (element_size 4) or float64 (8).
inline std::int64_t packed_bytes(Index depth, Index cols, std::size_t element_size) {
  return element_size == sizeof(float) ? Packed<float>::bytes(depth, cols)
                                       : Packed<double>::bytes(depth, cols);
}

/// out = alpha · a B for a (m, depth), B (depth, n) the columns [col0, col0 + n) of b, out (m, n).
/// col0 is a multiple of packed_vector<T>(); multiples of packed_width<T>() are fastest. Each
/// element is a sum in the order of the inner index, fused in T, then multiplied by alpha: its bits
/// depend only on a's row and b's column.
template <class T>
void multiply_packed(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                     MatrixView<T> out);

/// out = exp(alpha · a B), computed while the sums are in registers. As above, but col0 is a
/// multiple of packed_width<T>(), and products are at most 80 in magnitude. Within 1.25 ulp of exp
/// of the rounded product. Adds the sum of row i of out to row_sum_i (m), or the sum of column j to
/// col_sum_j (n); at least one of the two is null. row_product, allowed with a row_sum only, gains
/// Σ_j out_ij log out_ij. Sums stay in T for at most 64 terms and are kept in float64 beyond.
template <class T>
void multiply_exp_packed(T alpha, MatrixView<const T> a, const Packed<T>& b, Index col0,
                         MatrixView<T> out, double* row_sum, double* col_sum,
                         double* row_product = nullptr);

/// out += a B for a (m, k), B (k, cols) the rows [row0, row0 + k) of b, out (m, cols). Each element
/// is a sum in the order of the inner index, added to out at the end.
template <class T>
void multiply_add_packed(MatrixView<const T> a, const Packed<T>& b, Index row0, MatrixView<T> out);

/// out += aᵀ B for a (k, m) read in place, B (k, cols) the rows [row0, row0 + k) of b, out (m,
/// cols). The sum over each run of 64 rows, in their order, is added to out.
template <class T>
void multiply_add_transposed_packed(MatrixView<const T> a, const Packed<T>& b, Index row0,
                                    MatrixView<T> out);

}  // namespace attn::kernel
