#pragma once

#include <vector>

#include "gradient/gradient.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// A forward step with v_j − c for v_j and o_i − c for o_i, where c is the mean of the outputs that
/// the loss looks at. As rows of weights add up to 1, G_ij − δ_i = ⟨dO_i, v_j − o_i⟩ is the same,
/// but of terms as large as values differ, not as they are: no digits cancel for what all have in
/// common. Done where it brings every such output to half its size or less, so that it makes no row
/// worse: what some queries see may be of another size than what others do. Where c is so large
/// that outputs have few digits beside it they are made again, in one pass.
///
/// Values of keys that no query may attend to, which may be anything, become 0.
template <class T>
class CentredValues {
 public:
  CentredValues(const Forward<T>& forward, int threads);

  const Forward<T>& forward() const { return forward_; }

 private:
  void drop_empty_keys();
  void centre(int threads);
  std::vector<Index> live_queries() const;

  Forward<T> forward_;
  Buffer<T> v_;
  Buffer<T> centred_v_;
  Buffer<T> out_;
};

}  // namespace attn
