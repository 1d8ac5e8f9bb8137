#pragma once

#include "kernel/packed.hpp"
#include "pass/pass.hpp"
#include "score/weight_dropout.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// out_i = Σ_j π_ij v_j, with dropout Σ_j M_ij π_ij v_j, for v (Lk, dv) and out (Lq, dv) in the
/// caller's memory. In row panels each row of out belongs to one slot. In column panels, which only
/// one_pass_columns and one_pass_hybrid show, slot 0 gathers in out. Every other slot gathers in
/// its own memory, of out's size; the pass adds the slots up.
template <class T>
class Output final : public Observer<T> {
 public:
  Output(MatrixView<const T> v, MatrixView<T> out, const WeightDropout& dropout = {});

  void start(const Partition& partition) override;
  void observe(const WeightTile<T>& tile, Index slot) override;
  bool by_row() const override { return true; }
  void scale_rows(Index first, Index count, const T* factors, Index slot) override;
  MatrixView<T> gathered(Index slot) override;
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override;
  void finish() override;

  /// Bytes held during a pass with this partition, without dropout.
  static std::int64_t bytes(const Partition& partition, Index depth);

 private:
  // The values of a panel's keys times the pending factors of their columns.
  struct PanelValues {
    Index key = -1;
    kernel::Packed<T> packed;
  };

  void gather(const WeightTile<T>& tile, Index slot);
  void gather_few(const WeightTile<T>& tile);
  void scale_back();
  MatrixView<const T> values(Index first, Index count) const;

  MatrixView<const T> v_;
  MatrixView<T> out_;
  int exponent_ = 0;  // the gathered sums are out · 2^-exponent
  Buffer<T> scaled_;  // v · 2^-exponent, if that differs from v
  // For a few rows in row panels: the exponent of the largest value of each row so far.
  PooledVector<int> largest_;
  kernel::Packed<T> packed_;
  PooledVector<PanelValues> panels_;  // by slot, in column panels
  PooledVector<Buffer<T>> sums_;      // of the slots after the first, if slots share rows
  WeightDropout dropout_;
  PooledVector<Buffer<T>> kept_;  // by slot: the weights of a tile that dropout keeps
};

}  // namespace attn
