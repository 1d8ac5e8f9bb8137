#include "pass/output.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/few_rows.hpp"
#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"

namespace attn {
namespace {

template <class T>
void clear(MatrixView<T> rows) {
  for (Index i = 0; i < rows.rows; ++i) std::fill_n(rows.row(i), rows.cols, T{0});
}

// The exponent that scales the largest value to about 1; 0 if it is not far from that.
template <class T>
int exponent_of(T largest) {
  constexpr int usual = 20;
  int exponent = 0;
  if (largest > 0 && largest <= std::numeric_limits<T>::max()) std::frexp(largest, &exponent);
  return std::abs(exponent) <= usual ? 0 : exponent;
}

}  // namespace

template <class T>
Output<T>::Output(MatrixView<const T> v, MatrixView<T> out, T largest, const WeightDropout& dropout)
    : v_(v), out_(out), exponent_(exponent_of(largest)), dropout_(dropout) {
  scale_values();
}

template <class T>
Output<T>::Output(MatrixView<const T> v, MatrixView<T> out, const WeightDropout& dropout)
    : Output(v, out, kernel::largest_magnitude(v), dropout) {}

template <class T>
Output<T>::Output(MatrixView<const T> v, MatrixView<T> out, T largest)
    : Output(v, out, largest, WeightDropout()) {}

template <class T>
void Output<T>::scale_values() {
  if (exponent_ == 0) return;
  scaled_.reserve(v_.rows * v_.cols);
  for (Index j = 0; j < v_.rows; ++j) {
    for (Index c = 0; c < v_.cols; ++c) scaled_[j * v_.cols + c] = std::ldexp(v_(j, c), -exponent_);
  }
}

template <class T>
void Output<T>::pack_values() {
  if (kernel::worth_packing(out_.rows)) packed_ = kernel::Packed<T>::of(values(0, v_.rows));
}

template <class T>
void Output<T>::go_on(MatrixView<const T> v) {
  v_ = v;
  scale_values();
  pack_values();
}

// Rows [first, first + count) of the values to gather.
template <class T>
MatrixView<const T> Output<T>::values(Index first, Index count) const {
  if (exponent_ == 0) return v_.row_range(first, count);
  return MatrixView<const T>(scaled_.data() + first * v_.cols, count, v_.cols);
}

template <class T>
void Output<T>::start(const Partition& partition) {
  const bool shared = partition.order == Order::column_panels;
  if (!shared) pack_values();
  if (dropout_.any()) kept_.resize(static_cast<std::size_t>(partition.slots));
  panels_.resize(shared ? static_cast<std::size_t>(partition.slots) : 0);
  sums_.resize(shared ? static_cast<std::size_t>(std::max<Index>(1, partition.slots) - 1) : 0);
  for (Buffer<T>& sum : sums_) sum = Buffer<T>(out_.rows * out_.cols);
  for (Index slot = 0; slot <= static_cast<Index>(sums_.size()); ++slot) clear(gathered(slot));
}

// Slots of row panels write to their own rows of out.
template <class T>
MatrixView<T> Output<T>::gathered(Index slot) {
  if (slot == 0 || sums_.empty()) return out_;
  return MatrixView<T>(sums_[static_cast<std::size_t>(slot - 1)].data(), out_.rows, out_.cols);
}

template <class T>
void Output<T>::observe(const WeightTile<T>& tile, Index slot) {
  if (!dropout_.any()) return gather(tile, slot);
  // Other observers see the weights as they are.
  Buffer<T>& kept = kept_[static_cast<std::size_t>(slot)];
  kept.reserve(tile.range.rows * tile.range.cols);
  const MatrixView<T> weights(kept.data(), tile.range.rows, tile.range.cols);
  for (Index i = 0; i < weights.rows; ++i) {
    std::copy_n(tile.weights.row(i), weights.cols, weights.row(i));
  }
  dropout_.apply(tile.range, weights);
  WeightTile<T> dropped = tile;
  dropped.weights = weights;
  gather(dropped, slot);
}

template <class T>
void Output<T>::gather(const WeightTile<T>& tile, Index slot) {
  const auto rows = gathered(slot).row_range(tile.range.row0, tile.range.rows);
  if (!panels_.empty()) {
    PanelValues& panel = panels_[static_cast<std::size_t>(slot)];
    if (panel.key != tile.range.col0) {
      panel.packed =
          kernel::Packed<T>::of_scaled(values(tile.range.col0, tile.range.cols), tile.key_factor);
      panel.key = tile.range.col0;
    }
    kernel::multiply_add_packed(tile.weights, panel.packed, 0, rows);
  } else if (packed_.depth() > 0) {
    kernel::multiply_add_packed(tile.weights, packed_, tile.range.col0, rows);
  } else if (!kernel::worth_packing(out_.rows)) {
    kernel::few_rows_add(tile.weights, values(tile.range.col0, tile.range.cols), rows);
  } else {
    kernel::multiply_add(tile.weights, values(tile.range.col0, tile.range.cols), rows);
  }
}

template <class T>
void Output<T>::scale_rows(Index first, Index count, const T* factors, Index slot) {
  const MatrixView<T> rows = gathered(slot).row_range(first, count);
  for (Index i = 0; i < count; ++i) {
    if (factors[i] == 0) {
      std::fill_n(rows.row(i), rows.cols, T{0});
    } else if (factors[i] != 1) {
      kernel::scale_row(rows.row(i), rows.cols, static_cast<double>(factors[i]));
    }
  }
}

// The sums by row panels; one_pass_columns shares those of column panels.
template <class T>
void Output<T>::share(const SlotShare& share) {
  if (share.partition().order == Order::row_panels) share.complete_lines(out_);
}

template <class T>
void Output<T>::finish() {
  sums_.clear();
  panels_.clear();
  kept_.clear();
  packed_ = kernel::Packed<T>();
  if (exponent_ == 0) return;
  for (Index i = 0; i < out_.rows; ++i) {
    for (Index c = 0; c < out_.cols; ++c) out_(i, c) = std::ldexp(out_(i, c), exponent_);
  }
  // A pass that resumes from here shows normalised weights.
  exponent_ = 0;
}

template <class T>
std::int64_t Output<T>::bytes(const Partition& partition, Index depth) {
  if (partition.order == Order::row_panels) {
    return kernel::worth_packing(partition.rows) ? kernel::Packed<T>::bytes(partition.cols, depth)
                                                 : 0;
  }
  const Index sums = std::max<Index>(1, partition.slots) - 1;
  return partition.slots * kernel::Packed<T>::bytes(partition.panel, depth) +
         sums * partition.rows * depth * static_cast<std::int64_t>(sizeof(T));
}

template class Output<float>;
template class Output<double>;

}  // namespace attn
