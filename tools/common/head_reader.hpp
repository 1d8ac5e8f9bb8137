#pragma once

#include <memory>
#include <optional>

#include "common/attention_input.hpp"
#include "common/matrix_operand.hpp"
#include "score/relative_bias.hpp"
#include "score/scores.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// A row-major block read and found finite, or made of two such, shared by the heads that use it.
template <class T>
struct Block {
  Index index = -1;
  Index second = -1;  ///< of the weights, where it is a product
  Index rows = 0;
  Index cols = 0;
  Buffer<T> values;
  std::shared_ptr<const Block> input, weights;  ///< whose product it is

  MatrixView<const T> view() const { return {values.data(), rows, cols}; }
};

/// The two matrices that q, k or v is the product of.
template <class T>
struct Projected {
  MatrixView<const T> input;    ///< x or y (L, D)
  MatrixView<const T> weights;  ///< (D, d)
};

/// One head in memory, with its scores.
template <class T>
class Head {
 public:
  Index problem = 0;

  /// The scores for `scheme`: under fenchel those with α and the preference, else those without.
  const Scores<T>& scores(Scheme scheme) const {
    return scheme == Scheme::fenchel ? *fenchel_ : *plain_;
  }
  /// Of any scheme that the input was made for: they have one support, but for a preference of 0.
  const Scores<T>& scores() const { return plain_ ? *plain_ : *fenchel_; }
  MatrixView<const T> v() const { return v_; }

  /// What is there of what scores are made of, and what the loss says of the output.
  MatrixView<const T> q() const { return q_block_->view(); }
  MatrixView<const T> k() const { return k_block_->view(); }
  MatrixView<const T> w() const { return w_block_->view(); }
  MlpWeights<T> mlp_weights() const;
  MatrixView<const T> grad_out() const { return grad_out_block_->view(); }
  Projected<T> made_of_q() const { return factors(*q_block_); }
  Projected<T> made_of_k() const { return factors(*k_block_); }
  Projected<T> made_of_v() const { return factors(*v_block_); }

  /// The smallest finite bias of this head where that is below 0, else 0.
  double least_bias() const { return bias_ ? bias_->least() : 0; }

 private:
  template <class U>
  friend class HeadReader;
  static Projected<T> factors(const Block<T>& product) {
    return {product.input->view(), product.weights->view()};
  }
  std::shared_ptr<Block<T>> q_block_, k_block_, v_block_;
  std::shared_ptr<Block<T>> w_block_, w1_block_, w2_block_, b1_block_, grad_out_block_;
  MatrixView<const T> v_;
  std::shared_ptr<OperandMatrix<T>> stored_, bias_, preference_;
  std::shared_ptr<OperandMatrix<std::uint8_t>> mask_;
  std::shared_ptr<RelativeBias<T>> relative_;
  std::unique_ptr<Energy<T>> energy_, fenchel_energy_;
  std::optional<Scores<T>> plain_, fenchel_;
};

/// Reads heads in order; blocks that consecutive heads share (grouped keys, a common mask) are read
/// once. Not for use by several threads.
template <class T>
class HeadReader {
 public:
  /// `input` must outlive the reader and its heads. Masks, biases and ready-made scores of up to
  /// `dense_limit` bytes a head are held in memory, larger ones read by tiles. `threads` work on
  /// projections.
  HeadReader(const AttentionInput& input, std::int64_t dense_limit, int threads);

  /// Throws Error(input) naming dataset and index of what is not finite, Error(numerical) for a
  /// projection beyond the format.
  std::shared_ptr<Head<T>> read(Index problem);

 private:
  using Last = std::shared_ptr<Block<T>>;
  Last block(const Operand& operand, Index problem, Last& last);
  std::shared_ptr<Block<T>> vectors(const Vectors& vectors, Index problem, Last& last_input,
                                    Last& last);
  void read_energy_weights(Head<T>& head);
  std::unique_ptr<Energy<T>> energy(const Head<T>& head, ScoreOptions::Energy kind, double scale);
  std::shared_ptr<RelativeBias<T>> relative(Index problem);

  const AttentionInput& input_;
  std::int64_t dense_limit_;
  int threads_;
  Last last_q_, last_k_, last_v_, last_x_, last_y_;
  Last last_w_, last_w1_, last_w2_, last_b1_, last_table_, last_grad_out_;
  // Keyed by block: the last source made, and for which block.
  template <class U>
  struct Matrix {
    Index index = -1;
    std::shared_ptr<OperandMatrix<U>> source;
  };
  Matrix<T> last_scores_, last_bias_, last_preference_;
  Matrix<std::uint8_t> last_mask_;
};

}  // namespace attn::tools
