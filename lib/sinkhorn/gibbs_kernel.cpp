#include "sinkhorn/gibbs_kernel.hpp"

#include <algorithm>
#include <limits>

#include "kernel/tile.hpp"
#include "pass/one_pass.hpp"
#include "pass/potentials.hpp"

namespace attn {
namespace {

// exp(s) and products with factors of a similar size then lie well inside float64; float32 has
// Scores::near_zero.
constexpr double largest_in_double = 350;

template <class T>
bool exponentials_in_range(const Scores<T>& scores) {
  return scores.near_zero() ||
         (sizeof(T) == sizeof(double) && scores.magnitude() <= largest_in_double);
}

Index tiles_per_block(const Partition& partition) {
  return (partition.cols + row_tile_cols - 1) / row_tile_cols;
}

}  // namespace

template <class T>
GibbsKernel<T>::GibbsKernel(const Scores<T>& scores, std::int64_t kept_bytes)
    : scores_(scores),
      partition_(row_pass_partition(scores.rows(), scores.cols(), sizeof(T))),
      to_zero_(exponentials_in_range(scores)) {
  const std::int64_t block = bytes(partition_.panel, partition_.cols);
  number_.assign(static_cast<std::size_t>(partition_.panels), partition_.panels);
  Index own_blocks = 0;
  Index own_rows = 0;
  const RankShare share = slots_of_rank(partition_);
  for (Index n = 0; n < share.own_count(); ++n) {
    const Index slot = share.own_item(n);
    own_rows += partition_.first_line(slot + 1) - partition_.first_line(slot);
    for (Index b = partition_.first_panel(slot); b < partition_.first_panel(slot + 1); ++b) {
      number_[static_cast<std::size_t>(b)] = own_blocks++;
    }
  }
  if (bytes(own_rows, partition_.cols) <= kept_bytes) {
    kept_blocks_ = own_blocks;
  } else if (block > 0) {
    kept_blocks_ = std::max<std::int64_t>(0, kept_bytes) / block;
  }
  if (kept_blocks_ == 0) return;
  const Index rows = std::min(kept_blocks_ * partition_.panel, own_rows);
  kept_ = LargeMemory(static_cast<std::size_t>(bytes(rows, partition_.cols)));
  there_.assign(static_cast<std::size_t>(kept_blocks_ * tiles_per_block(partition_)), 0);
}

template <class T>
void GibbsKernel<T>::refer_to(std::span<const double> row, std::span<const double> col) {
  to_zero_ = false;
  row_ = to_subtract(row);
  col_ = to_subtract(col);
  std::fill(there_.begin(), there_.end(), std::uint8_t{0});
}

template <class T>
std::size_t GibbsKernel<T>::at(const TileRange& range) const {
  return static_cast<std::size_t>(number_of(range) * tiles_per_block(partition_) +
                                  range.col0 / row_tile_cols);
}

template <class T>
T* GibbsKernel<T>::place(const TileRange& range, Index first) const {
  const Index rows = std::min(kept_rows, range.rows - first);
  return static_cast<T*>(kept_.data()) +
         (number_of(range) * partition_.panel + first) * partition_.cols + rows * range.col0;
}

template <class T>
MatrixView<const T> GibbsKernel<T>::tile(const TileRange& range, MatrixView<T> room,
                                         typename Scores<T>::Scratch& scratch) {
  const bool there = has(range);
  if (!there) make(range, room, scratch);
  if (!kept(range)) return room;
  for (Index first = 0; first < range.rows; first += kept_rows) {
    const Index rows = std::min(kept_rows, range.rows - first);
    const MatrixView<T> here = room.row_range(first, rows);
    T* const packed = place(range, first);
    if (rows == kept_rows) {
      there ? kernel::unpack_rows(packed, here) : kernel::pack_rows(here, packed);
      continue;
    }
    for (Index i = 0; i < rows; ++i) {
      T* const row = packed + i * range.cols;
      there ? std::copy_n(row, range.cols, here.row(i)) : std::copy_n(here.row(i), range.cols, row);
    }
  }
  there_[at(range)] = 1;
  return room;
}

template <class T>
void GibbsKernel<T>::make(const TileRange& range, MatrixView<T> out,
                          typename Scores<T>::Scratch& scratch) const {
  if (to_zero_ && scores_.near_zero()) {
    scores_.fill_exponentials(range, out, scratch, nullptr, nullptr);
    return;
  }
  scores_.fill(range, out, scratch);
  for (Index i = 0; i < range.rows; ++i) {
    if (to_zero_) {
      kernel::exp_row(out.row(i), out.row(i), range.cols, nullptr, 0);
    } else {
      kernel::exp_row(out.row(i), out.row(i), range.cols, col_.data() + range.col0,
                      row_[static_cast<std::size_t>(range.row0 + i)]);
    }
  }
}

template <class T>
std::int64_t GibbsKernel<T>::bytes(Index rows, Index cols) {
  return rows * cols * static_cast<std::int64_t>(sizeof(T));
}

std::int64_t kept_kernel_bytes(Index rows, Index cols, std::size_t element_size,
                               const RankRows& ranks) {
  return most_rows_of_rank(row_pass_partition(rows, cols, element_size), ranks) * cols *
         static_cast<std::int64_t>(element_size);
}

template class GibbsKernel<float>;
template class GibbsKernel<double>;

}  // namespace attn
