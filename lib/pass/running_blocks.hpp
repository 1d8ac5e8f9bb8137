#pragma once

#include "pass/key_blocks.hpp"
#include "pass/running_rows.hpp"

namespace attn {

/// KeyBlocks with the bits of run_rows: a softmax, exponentials divided by those of a g, or both.
template <class T>
class RunningBlocks final : public KeyBlocks<T> {
 public:
  using typename KeyBlocks<T>::Options;
  explicit RunningBlocks(const Options& options);

  int rounds() const override { return 1; }
  bool shows_weights() const override;
  std::vector<LineNumbers> state(int round) override;

 private:
  using typename KeyBlocks<T>::Tile;
  using typename KeyBlocks<T>::Work;
  void start_round(int round, const Scores<T>& scores) override;
  void add_tile(int round, const Tile& tile, Work& work) override;
  void complete_panel(Index panel, double* row, double* unas_row) override;
  const T* fill_weights(const Tile& tile, Work& work) override;
  bool gathers_weights() const override { return this->is_mixture(); }

  bool add_to(RunningRows<T>& rows, const Tile& tile, Work& work, bool with_products) const;
  RunningRows<T>& rows_of(PooledVector<RunningRows<T>>& panels, Index panel) const {
    return panels[static_cast<std::size_t>(panel)];
  }

  PooledVector<double> key_factor_;  // exp(−g) of all keys
  PooledVector<RunningRows<T>> first_;
  PooledVector<RunningRows<T>> again_;    // in the round that shows weights
  PooledVector<RunningRows<T>> softmax_;  // of a mixture: the sums of exponentials alone
};

}  // namespace attn
