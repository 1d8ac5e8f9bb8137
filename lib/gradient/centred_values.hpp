#pragma once

#include <span>

#include "gradient/gradient.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// A forward step with v_j − c for v_j and o_i − c for o_i, where c is the mean of the outputs that
/// the loss depends on. As rows of weights add up to 1, G_ij − δ_i = ⟨dO_i, v_j − o_i⟩ stays the
/// same, but its terms are as large as the differences of the values, so that a common part of all
/// values costs no digits. Centring requires that every such output at least halves in size:
/// queries may see values of different sizes, and no row must get worse. If c is so large that
/// outputs have few digits beside it, they are computed again, in one pass.
///
/// Values of keys that no query may attend to are not read; they become 0.
template <class T>
class CentredValues {
 public:
  CentredValues(const Forward<T>& forward, int threads);

  const Forward<T>& forward() const { return forward_; }

  /// The values less the same c of the keys that some query may attend to by these counts, where
  /// they are more than the forward step has; zeros, or −c, for the others. In `storage`, or as
  /// given.
  MatrixView<const T> values_of(std::span<const Index> queries_of_key, Buffer<T>& storage) const;

 private:
  void centre(int threads);

  Forward<T> forward_;
  MatrixView<const T> given_v_;
  PooledVector<double> mean_;  // c; empty: values are not centred
  Buffer<T> v_;
  Buffer<T> centred_v_;
  Buffer<T> out_;
};

}  // namespace attn
