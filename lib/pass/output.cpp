#include "pass/output.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "kernel/few_rows.hpp"
#include "kernel/magnitudes.hpp"
#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "pass/scaled_sums.hpp"

namespace attn {
namespace {

template <class T>
void clear(MatrixView<T> rows) {
  for (Index i = 0; i < rows.rows; ++i) std::fill_n(rows.row(i), rows.cols, T{0});
}

// Below the exponent of any number.
constexpr int nothing_met = -(1 << 16);

// The e of a largest magnitude from 2^(e−1) to 2^e; nothing_met for 0, and 0 if it is not finite.
template <class T>
int size_of(T largest) {
  int exponent = largest == 0 ? nothing_met : 0;
  if (largest > 0 && largest <= std::numeric_limits<T>::max()) std::frexp(largest, &exponent);
  return exponent;
}

bool is_usual(int size) { return std::abs(size) <= 20; }

// The exponent that scales values of this size to about 1; 0 for values not far from 1.
int exponent_of(int size) { return size == nothing_met || is_usual(size) ? 0 : size; }

// Values without weight in a row do not change the row's scale, whichever tiles show them.
template <class T>
bool any_weight(MatrixView<const T> weights, Index row) {
  return std::any_of(weights.row(row), weights.row(row) + weights.cols,
                     [](T weight) { return weight != 0; });
}

template <class T>
Buffer<T> scaled_by(int exponent, MatrixView<const T> v) {
  Buffer<T> scaled(v.rows * v.cols);
  for (Index j = 0; j < v.rows; ++j) {
    for (Index c = 0; c < v.cols; ++c) scaled[j * v.cols + c] = std::ldexp(v(j, c), exponent);
  }
  return scaled;
}

template <class T>
void scale_row_by(int exponent, MatrixView<T> rows, Index i) {
  for (Index c = 0; exponent != 0 && c < rows.cols; ++c) {
    rows(i, c) = std::ldexp(rows(i, c), exponent);
  }
}

}  // namespace

template <class T>
Output<T>::Output(MatrixView<const T> v, MatrixView<T> out, const WeightDropout& dropout)
    : v_(v), out_(out), dropout_(dropout) {}

// Rows [first, first + count) of the values to gather.
template <class T>
MatrixView<const T> Output<T>::values(Index first, Index count) const {
  if (exponent_ == 0) return v_.row_range(first, count);
  return MatrixView<const T>(scaled_.data() + first * v_.cols, count, v_.cols);
}

template <class T>
void Output<T>::start(const Partition& partition) {
  const bool shared = partition.order == Order::column_panels;
  const bool few = !shared && !kernel::worth_packing(out_.rows);
  largest_.assign(few ? static_cast<std::size_t>(out_.rows) : 0, nothing_met);
  exponent_ = few ? 0 : exponent_of(size_of(kernel::largest_magnitude(v_)));
  if (exponent_ != 0) scaled_ = scaled_by(-exponent_, v_);
  if (!shared && !few) packed_ = kernel::Packed<T>::of(values(0, v_.rows));
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
  } else if (!largest_.empty()) {
    gather_few(tile);
  } else if (!kernel::worth_packing(out_.rows)) {
    kernel::few_rows_add(tile.weights, values(tile.range.col0, tile.range.cols), rows);
  } else {
    kernel::multiply_add(tile.weights, values(tile.range.col0, tile.range.cols), rows);
  }
}

// Reads the values from memory only once, as reading them takes as long as all the rest; so their
// size is not known in advance. Sums are rescaled, exactly, when larger values come.
template <class T>
void Output<T>::gather_few(const WeightTile<T>& tile) {
  constexpr Index piece_keys = 32;  // stay in the first-level cache
  const TileRange& range = tile.range;
  for (Index first = 0; first < range.cols; first += piece_keys) {
    const Index count = std::min(piece_keys, range.cols - first);
    const MatrixView<const T> piece = v_.row_range(range.col0 + first, count);
    const MatrixView<const T> weights(tile.weights.data + first, range.rows, count,
                                      tile.weights.row_stride);
    const int size = size_of(kernel::largest_magnitude(piece));
    if (size == nothing_met) continue;
    int* const met = largest_.data() + range.row0;
    const bool all_usual = is_usual(size) && std::all_of(met, met + range.rows, [](int largest) {
                             return exponent_of(largest) == 0;
                           });
    if (all_usual) {
      kernel::few_rows_add(weights, piece, out_.row_range(range.row0, range.rows));
    }
    Buffer<T> scaled;  // by 2^-exponent, which is the same for most rows
    int exponent = 0;
    for (Index i = 0; i < range.rows; ++i) {
      if (all_usual && met[i] != nothing_met) continue;
      if (!any_weight(weights, i)) continue;
      const int before = exponent_of(met[i]);
      met[i] = std::max(met[i], size);
      if (all_usual) continue;
      const int now = exponent_of(met[i]);
      scale_row_by(before - now, out_, range.row0 + i);
      if (scaled.data() == nullptr || now != exponent) scaled = scaled_by(-now, piece);
      exponent = now;
      kernel::few_rows_add(weights.row_range(i, 1),
                           MatrixView<const T>(scaled.data(), count, piece.cols),
                           out_.row_range(range.row0 + i, 1));
    }
  }
}

// Turns sums of few rows into the output.
template <class T>
void Output<T>::scale_back() {
  for (std::size_t i = 0; i < largest_.size(); ++i) {
    scale_row_by(exponent_of(largest_[i]), out_, static_cast<Index>(i));
    largest_[i] = nothing_met;
  }
}

template <class T>
void Output<T>::scale_rows(Index first, Index count, const T* factors, Index slot) {
  multiply_rows(gathered(slot).row_range(first, count), factors);
}

// The sums by row panels; one_pass_columns shares the sums by column panels.
template <class T>
void Output<T>::share(const SlotShare& share) {
  scale_back();
  if (share.partition().order == Order::row_panels) share.complete_lines(out_);
}

template <class T>
void Output<T>::finish() {
  sums_.clear();
  panels_.clear();
  kept_.clear();
  packed_ = kernel::Packed<T>();
  scale_back();
  largest_.clear();
  for (Index i = 0; i < out_.rows; ++i) scale_row_by(exponent_, out_, i);
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
