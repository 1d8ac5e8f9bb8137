#include "pass/pass_blocks.hpp"

#include <algorithm>

#include "kernel/tile.hpp"
#include "pass/completed_row.hpp"
#include "pass/potentials.hpp"
#include "tensor/infinity.hpp"

namespace attn {

template <class T>
PassBlocks<T>::PassBlocks(const Options& options) : KeyBlocks<T>(options, pass_tile_length, false) {
  parts_.push_back({options.hybrid, to_subtract(options.col)});
  if (this->is_mixture()) parts_.push_back({1 - options.hybrid});
  const auto count = static_cast<std::size_t>(this->own_queries());
  for (Part& part : parts_) {
    part.shift.assign(count, minus_infinity);
    part.sum.assign(count, 0.0);
    part.factor.assign(count, 0.0);
  }
}

template <class T>
bool PassBlocks<T>::shows_weights() const {
  const Options& options = this->options_;
  return options.column_sums || options.entropies || options.out.data != nullptr;
}

template <class T>
std::vector<LineNumbers> PassBlocks<T>::state(int) {
  std::vector<LineNumbers> state;
  for (Part& part : parts_) {
    for (PooledVector<double>* numbers : {&part.shift, &part.sum, &part.factor}) {
      state.push_back(LineNumbers::of(*numbers));
    }
  }
  if (this->options_.entropies) state.push_back(LineNumbers::of(this->entropy_));
  return state;
}

template <class T>
void PassBlocks<T>::start_round(int round, const Scores<T>&) {
  if (round != 1) return;
  // Of a query with nothing allowed.
  for (Part& part : parts_) {
    std::replace(part.shift.begin(), part.shift.end(), minus_infinity, 0.0);
  }
}

template <class T>
void PassBlocks<T>::add_tile(int round, const Tile& tile, Work& work) {
  const MatrixView<T> s = tile.view;
  tile.scores.fill(tile.range, s, work.scratch);
  if (round == 1) {
    // The first part overwrites the scores, so it goes last.
    const MatrixView<T> second = second_of(tile, work);
    if (parts_.size() > 1) add_exponentials(parts_[1], tile, second, &parts_[1].sum);
    add_exponentials(parts_[0], tile, s, &parts_[0].sum);
    return;
  }
  for (Part& part : parts_) {
    for (Index i = 0; i < s.rows; ++i) {
      double& shift = part.shift[static_cast<std::size_t>(tile.range.row0 + i)];
      shift = std::max(shift, kernel::row_max(s.row(i), s.cols, part.col_from(tile.key)));
    }
  }
}

// Room for the exponentials of the second part.
template <class T>
MatrixView<T> PassBlocks<T>::second_of(const Tile& tile, Work& work) const {
  if (parts_.size() == 1) return {};
  work.second.reserve(tile.view.rows * tile.view.cols);
  return MatrixView<T>(work.second.data(), tile.view.rows, tile.view.cols);
}

// out_ij = exp((s_ij − g_j) − shift_i), whose sums by row are added to `sums` if these are wanted.
template <class T>
void PassBlocks<T>::add_exponentials(const Part& part, const Tile& tile, MatrixView<T> out,
                                     PooledVector<double>* sums) {
  for (Index i = 0; i < out.rows; ++i) {
    const auto at = static_cast<std::size_t>(tile.range.row0 + i);
    const double sum = kernel::exp_row(out.row(i), tile.view.row(i), out.cols,
                                       part.col_from(tile.key), part.shift[at]);
    if (sums != nullptr) (*sums)[at] += sum;
  }
}

template <class T>
void PassBlocks<T>::complete_panel(Index panel, double* row, double* unas_row) {
  const RowRange lines = this->own_lines(panel);
  for (Part& part : parts_) {
    double* const f = &part == parts_.data() ? row : unas_row;
    for (Index i = lines.first; i < lines.last; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const CompletedRow completed =
          completed_row(part.shift[at], part.sum[at], this->options_.sink, 0, part.coefficient);
      f[i - lines.first] = completed.f;
      part.factor[at] = completed.factor;
    }
  }
}

template <class T>
const T* PassBlocks<T>::fill_weights(const Tile& tile, Work& work) {
  const MatrixView<T> weights = tile.view;
  tile.scores.fill(tile.range, weights, work.scratch);
  const MatrixView<T> second = second_of(tile, work);
  if (parts_.size() > 1) add_exponentials(parts_[1], tile, second, nullptr);
  add_exponentials(parts_[0], tile, weights, nullptr);
  for (Index i = 0; i < weights.rows; ++i) {
    const auto at = static_cast<std::size_t>(tile.range.row0 + i);
    kernel::scale_row(weights.row(i), weights.cols, parts_[0].factor[at]);
    if (parts_.size() == 1) continue;
    kernel::add_scaled_row(weights.row(i), second.row(i), weights.cols, parts_[1].factor[at]);
  }
  return nullptr;
}

template class PassBlocks<float>;
template class PassBlocks<double>;

}  // namespace attn
