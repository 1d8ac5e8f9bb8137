#pragma once

#include "scheme/gradient.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// A forward step with v_j − c for v_j and o_i − c for o_i, where c is the mean of the outputs. As
/// rows of weights add up to 1, G_ij − δ_i = ⟨dO_i, v_j − o_i⟩ is the same, but of terms as large
/// as values differ, not as they are: no digits cancel for what all have in common. Of the outputs,
/// since keys that nobody attends to may hold anything. Where c is so large that the outputs have
/// few digits beside it they are made again, in one pass. Values of extreme size are left as they
/// are.
template <class T>
class CentredValues {
 public:
  CentredValues(const Forward<T>& forward, int threads);

  const Forward<T>& forward() const { return forward_; }

 private:
  Forward<T> forward_;
  Buffer<T> v_;
  Buffer<T> out_;
};

}  // namespace attn
