#pragma once

#include "scheme/pass.hpp"

namespace attn {

/// out_i = Σ_j π_ij v_j, for v (Lk, dv) and out (Lq, dv) in somebody else's memory. For row panels
/// only: there each row of out belongs to one slot.
template <class T>
class Output final : public Observer<T> {
 public:
  Output(MatrixView<const T> v, MatrixView<T> out) : v_(v), out_(out) {}

  void start(const Partition& partition) override;
  void observe(const WeightTile<T>& tile, Index slot) override;

 private:
  MatrixView<const T> v_;
  MatrixView<T> out_;
};

}  // namespace attn
