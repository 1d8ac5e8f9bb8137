#include "pass/pass_blocks.hpp"

#include <algorithm>

#include "kernel/tile.hpp"
#include "pass/completed_row.hpp"
#include "pass/potentials.hpp"
#include "tensor/infinity.hpp"

namespace attn {

template <class T>
PassBlocks<T>::PassBlocks(const Options& options)
    : KeyBlocks<T>(options, pass_tile_length, false), col_(to_subtract(options.col)) {
  const auto count = static_cast<std::size_t>(this->own_queries());
  shift_.assign(count, minus_infinity);
  sum_.assign(count, 0.0);
  factor_.assign(count, 0.0);
}

template <class T>
bool PassBlocks<T>::shows_weights() const {
  const Options& options = this->options_;
  return options.column_sums || options.entropies || options.out.data != nullptr;
}

template <class T>
void PassBlocks<T>::start_round(int round, const Scores<T>&) {
  // Of a query with nothing allowed so far, and for ever.
  if (round == 1) std::replace(shift_.begin(), shift_.end(), minus_infinity, 0.0);
}

template <class T>
void PassBlocks<T>::add_tile(int round, const Tile& tile, Work& work) {
  tile.scores.fill(tile.range, tile.view, work.scratch);
  const double* const g = col_.data() + tile.key;
  for (Index i = 0; i < tile.view.rows; ++i) {
    const auto at = static_cast<std::size_t>(tile.range.row0 + i);
    T* const s = tile.view.row(i);
    if (round == 0) {
      shift_[at] = std::max(shift_[at], kernel::row_max(s, tile.view.cols, g));
    } else {
      sum_[at] += kernel::exp_row(s, s, tile.view.cols, g, shift_[at]);
    }
  }
}

template <class T>
void PassBlocks<T>::complete_panel(Index panel, double* row) {
  const RowRange lines = this->own_lines(panel);
  for (Index i = lines.first; i < lines.last; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const CompletedRow completed = completed_row(shift_[at], sum_[at], this->options_.sink);
    row[i - lines.first] = completed.f;
    factor_[at] = completed.factor;
  }
}

template <class T>
const T* PassBlocks<T>::fill_weights(const Tile& tile, Work& work) {
  tile.scores.fill(tile.range, tile.view, work.scratch);
  for (Index i = 0; i < tile.view.rows; ++i) {
    const auto at = static_cast<std::size_t>(tile.range.row0 + i);
    T* const s = tile.view.row(i);
    kernel::exp_row(s, s, tile.view.cols, col_.data() + tile.key, shift_[at]);
    kernel::scale_row(s, tile.view.cols, factor_[at]);
  }
  return nullptr;
}

template class PassBlocks<float>;
template class PassBlocks<double>;

}  // namespace attn
