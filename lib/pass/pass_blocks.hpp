#pragma once

#include "pass/key_blocks.hpp"

namespace attn {

/// KeyBlocks with the bits of run (pass.hpp), where a panel completes rows for a given g.
template <class T>
class PassBlocks final : public KeyBlocks<T> {
 public:
  using typename KeyBlocks<T>::Options;
  explicit PassBlocks(const Options& options);

  int rounds() const override { return 2; }  ///< for the maxima and for the sums
  bool shows_weights() const override;
  std::vector<LineNumbers> state(int round) override;

 private:
  using typename KeyBlocks<T>::Tile;
  using typename KeyBlocks<T>::Work;
  void start_round(int round, const Scores<T>& scores) override;
  void add_tile(int round, const Tile& tile, Work& work) override;
  void complete_panel(Index panel, double* row, double* unas_row) override;
  const T* fill_weights(const Tile& tile, Work& work) override;
  bool gathers_weights() const override { return true; }

  // One pair of potentials, see Component.
  struct Part {
    double coefficient = 1;
    PooledVector<double> col = {};  // g of all keys, as subtracted; empty: zeros
    // Of the own queries:
    PooledVector<double> shift = {};   // max_j(s_ij − g_j)
    PooledVector<double> sum = {};     // Σ_j exp((s_ij − g_j) − shift_i)
    PooledVector<double> factor = {};  // makes weights of these exponentials
    const double* col_from(Index key) const { return col.empty() ? nullptr : col.data() + key; }
  };

  MatrixView<T> second_of(const Tile& tile, Work& work) const;
  static void add_exponentials(const Part& part, const Tile& tile, MatrixView<T> out,
                               PooledVector<double>* sums);

  PooledVector<Part> parts_;  // two for hnas
};

}  // namespace attn
