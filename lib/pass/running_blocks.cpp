#include "pass/running_blocks.hpp"

#include <algorithm>
#include <utility>

#include "kernel/online_softmax.hpp"
#include "pass/one_pass.hpp"

namespace attn {

template <class T>
RunningBlocks<T>::RunningBlocks(const Options& options)
    : KeyBlocks<T>(options, row_tile_cols, true), key_factor_(key_factors(options.col)) {}

template <class T>
bool RunningBlocks<T>::shows_weights() const {
  const Options& options = this->options_;
  return options.column_sums || (options.entropies && !key_factor_.empty()) ||
         (options.out.data != nullptr && this->is_mixture());
}

template <class T>
std::vector<LineNumbers> RunningBlocks<T>::state(int round) {
  std::vector<LineNumbers> state;
  const auto add = [&]<class U>(PooledVector<RunningRows<T>>& panels,
                                PooledVector<U> RunningRows<T>::*numbers) {
    LineNumbers lines{.width = sizeof(U)};
    for (RunningRows<T>& rows : panels) lines.add(rows.*numbers);
    state.push_back(std::move(lines));
  };
  const auto add_rows = [&](PooledVector<RunningRows<T>>& panels) {
    add(panels, &RunningRows<T>::max);
    add(panels, &RunningRows<T>::factor);
    add(panels, &RunningRows<T>::sum);
    add(panels, &RunningRows<T>::product);
  };
  add_rows(first_);
  if (this->is_mixture()) add_rows(softmax_);
  if (round == rounds()) add_rows(again_);
  if (this->options_.entropies) state.push_back(LineNumbers::of(this->entropy_));
  return state;
}

template <class T>
void RunningBlocks<T>::start_round(int round, const Scores<T>& scores) {
  const bool near_zero = !key_factor_.empty() || takes_plain_exponentials(scores);
  const auto start = [&](PooledVector<RunningRows<T>>& panels) {
    panels.resize(static_cast<std::size_t>(this->panels()));
    for (Index panel = 0; panel < this->panels(); ++panel) {
      const RowRange lines = this->own_lines(panel);
      rows_of(panels, panel).start(lines.last - lines.first, near_zero);
    }
  };
  start(round == 0 ? first_ : again_);
  if (round == 0 && this->is_mixture()) start(softmax_);
}

// Fills the tile with exponentials, and adds them. Returns true as RunningRows::add does.
template <class T>
bool RunningBlocks<T>::add_to(RunningRows<T>& rows, const Tile& tile, Work& work,
                              bool with_products) const {
  if (key_factor_.empty()) {
    return rows.add(tile.scores, tile.range, tile.view, work.scratch, with_products);
  }
  const double* const key_factor = key_factor_.data() + tile.key;
  tile.scores.fill_exponentials(tile.range, tile.view, work.scratch, nullptr, nullptr);
  kernel::scale_columns_sum_rows(tile.view, key_factor, tile.view, rows.sum.data());
  return false;
}

template <class T>
void RunningBlocks<T>::add_tile(int, const Tile& tile, Work& work) {
  RunningRows<T>& rows = rows_of(first_, tile.panel);
  if (this->is_mixture()) {
    tile.scores.fill_exponentials(tile.range, tile.view, work.scratch,
                                  rows_of(softmax_, tile.panel).sum.data(), nullptr);
    kernel::add_row_products(tile.view, key_factor_.data() + tile.key, rows.sum.data());
    return;
  }
  const bool with_products = this->options_.entropies && key_factor_.empty();
  const bool grown = add_to(rows, tile, work, with_products);
  auto& output = this->output_;
  if (!output) return;
  if (grown) {
    output->scale_rows(tile.range.row0, tile.range.rows, rows.factor.data(), tile.slot);
  }
  output->observe(WeightTile<T>{tile.range, tile.view}, tile.slot);
}

template <class T>
void RunningBlocks<T>::complete_panel(Index panel, double* row, double* unas_row) {
  const Options& options = this->options_;
  RunningRows<T>& rows = rows_of(first_, panel);
  const Index first = this->own_lines(panel).first;
  rows.complete(options.sink, row, options.hybrid);
  if (this->is_mixture()) {
    rows_of(softmax_, panel).complete(options.sink, unas_row, 1 - options.hybrid);
  }
  if (this->output_) {
    this->output_->scale_rows(first, static_cast<Index>(rows.sum.size()), rows.factor.data(), 0);
  }
  if (!options.entropies || !key_factor_.empty()) return;
  rows.find_entropies(options.sink, row);
  std::copy(rows.product.begin(), rows.product.end(), this->entropy_.begin() + first);
}

template <class T>
const T* RunningBlocks<T>::fill_weights(const Tile& tile, Work& work) {
  const RunningRows<T>& whole = rows_of(first_, tile.panel);
  if (this->is_mixture()) {
    tile.scores.fill_exponentials(tile.range, tile.view, work.scratch, nullptr, nullptr);
    kernel::mix_columns(tile.view, key_factor_.data() + tile.key, whole.factor.data(),
                        rows_of(softmax_, tile.panel).factor.data());
    return nullptr;
  }
  RunningRows<T>& rows = rows_of(again_, tile.panel);
  add_to(rows, tile, work, false);
  work.factor.resize(rows.sum.size());
  for (std::size_t i = 0; i < work.factor.size(); ++i) {
    work.factor[i] = whole.factor_since(i, rows.max[i]);
  }
  return work.factor.data();
}

template class RunningBlocks<float>;
template class RunningBlocks<double>;

}  // namespace attn
