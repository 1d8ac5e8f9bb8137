#pragma once

#include "mechanisms/rows.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::mechanisms {

/// The scale of a softmax: its weights are exp(a_i − largest)/sum.
struct SoftmaxScale {
  double largest = 0;
  double sum = 1;
};

/// Attention of one query after the other over a tape of earlier states: energies a_i = v·tanh(p_i
/// + u), weights s = softmax(a), means Σ s_i m_i. The projections p_i (A) and the memories m_i (M)
/// of the first n places of the tape are known; both grow from step to step.
template <class T>
class Tape {
 public:
  /// Room for `places`; requires v (1, A).
  Tape(MatrixView<const T> v, Index places, Index memory);

  /// Sets the projection and memory of a place, before any query attends to it.
  void set(Index place, const T* projection, const T* memory);
  MatrixView<const T> memories() const { return memories_.read(); }

  /// Writes the mean (M) over the first n places for the query u (A), and the weights (n) unless
  /// `weights` is null. With n = 0 the mean is 0. Throws Error(numerical) for an energy that is not
  /// finite.
  SoftmaxScale attend(const T* u, Index n, T* weights, T* mean, int threads) const;

  /// The reverse: from dmean = ∂L/∂mean, adds to the gradients of v and of the memories and
  /// projections of the first n places, and writes the gradient of u. `scale` is the result of
  /// attend; the weights are computed again.
  void differentiate(const T* u, Index n, const SoftmaxScale& scale, const T* dmean, T* du,
                     int threads);

  bool is_differentiated() const { return is_differentiated_; }

  /// The gradients so far: adds the gradient of a place's memory, (M); writes the gradient of the
  /// place's projection, (A).
  void add_memory_gradient(Index place, T* gradient) const;
  void projection_gradient(Index place, T* gradient) const;
  const double* v_gradient() const { return v_gradient_.data(); }

  static std::int64_t bytes(Index places, Index inner, Index memory, bool gradients);

 private:
  // Places whose projections are stored together, with a column for each place. So few that a step
  // reads memory in order, and that data needed again are still in the cache.
  static constexpr Index block = 128;
  static Index blocks(Index places) { return (places + block - 1) / block; }

  // A query, and exp(2u) if kernel/tanh_of_products.hpp may be used for it.
  struct Query {
    const T* u;
    OwnedMatrix<T> exponentials;
  };
  Query query(const T* u) const;
  bool by_products(const Query& query, Index first) const {
    return query.exponentials.data() != nullptr && small_[static_cast<std::size_t>(first / block)];
  }

  // Numbers of a block's first places.
  MatrixView<T> of_block(const OwnedMatrix<T>& all, Index first, Index count) const {
    return {all.data() + first * v_.cols, v_.cols, count, block};
  }
  // Writes the energies of a block's first places.
  void energies(const Query& query, Index first, Index count, T* found) const;

  // Calls of differentiate whose gradients of memories are added together, as a product.
  static constexpr Index calls_at_once = 16;
  void start_gradients();
  void add_waiting_memory_gradients(int threads);

  MatrixView<const T> v_;
  OwnedMatrix<T> projections_;   // by block: (A, block)
  OwnedMatrix<T> exponentials_;  // exp(2p), where a block's projections are small
  PooledVector<char> small_;     // of each block so far
  OwnedMatrix<T> memories_;      // (places, M)
  OwnedMatrix<T> projection_gradients_, memory_gradients_;
  OwnedMatrix<double> v_gradient_;
  OwnedMatrix<T> waiting_weights_, waiting_dmeans_;  // by call, those of all places
  Index waiting_ = 0;
  bool is_differentiated_ = false;
};

}  // namespace attn::mechanisms
