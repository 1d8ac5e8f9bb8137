#pragma once

#include <memory>
#include <optional>

#include "head/attention_sources.hpp"
#include "head/head.hpp"
#include "head/matrix_operand.hpp"
#include "scheme/scheme_description.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// Some rows of a row-major block that were read and checked to be finite, or their product with
/// another block; shared by the heads that use them.
template <class T>
struct Block {
  Index index = -1;
  Index second = -1;  ///< for a product, the index of the weights
  Index first = 0;    ///< the first row
  Index rows = 0;
  Index cols = 0;
  Buffer<T> values;
  std::shared_ptr<const Block> input, weights;  ///< for a product, its factors

  MatrixView<const T> view() const { return {values.data(), rows, cols}; }
};

/// One head in memory, with its scores: the queries and keys that are not padding.
template <class T>
class Head {
 public:
  Index problem = 0;
  OwnPart part;

  /// The scores for `scheme`. Scores of a scheme with a preference include the preference, and α.
  const Scores<T>& scores(Scheme scheme) const {
    return (description_of(scheme).has_preference() ? preferring_ : plain_)->scores();
  }
  /// The scores for any scheme of the input: all allow the same pairs, except that a preference of
  /// 0 forbids a pair.
  const Scores<T>& scores() const { return (plain_ ? plain_ : preferring_)->scores(); }
  MatrixView<const T> v() const { return arrays_.v; }

  /// The operands of the scores, and the gradient of the loss with respect to the output; absent
  /// ones are empty.
  MatrixView<const T> q() const { return arrays_.q; }
  MatrixView<const T> k() const { return arrays_.k; }
  const HeadArrays<T>& arrays() const { return arrays_; }
  MatrixView<const T> grad_out() const { return grad_out_block_->view(); }
  /// The gradient of the joined heads, and this head's wo; without data unless heads are joined.
  ProjectedFrom<T> made_of_grad_out() const { return factors(grad_out_block_); }
  ProjectedFrom<T> made_of_q() const { return factors(q_block_); }
  ProjectedFrom<T> made_of_k() const { return factors(k_block_); }
  ProjectedFrom<T> made_of_v() const { return factors(v_block_); }

  /// The smallest finite bias of this head if it is below 0, else 0.
  double least_bias() const { return bias_ ? bias_->least() : 0; }

 private:
  template <class U>
  friend class HeadReader;
  static ProjectedFrom<T> factors(const std::shared_ptr<Block<T>>& product) {
    if (!product || !product->input) return {};
    return {product->input->view(), product->weights->view()};
  }
  std::shared_ptr<Block<T>> q_block_, k_block_, v_block_;
  std::shared_ptr<Block<T>> grad_out_block_;
  std::vector<std::shared_ptr<Block<T>>> energy_blocks_;
  HeadArrays<T> arrays_;
  std::shared_ptr<OperandMatrix<T>> stored_, bias_, preference_, gate_;
  std::shared_ptr<OperandMatrix<std::uint8_t>> mask_;
  std::optional<RelativeBias<T>> relative_;
  std::optional<HeadScores<T>> plain_, preferring_;
};

/// Reads heads in order; blocks that consecutive heads share (grouped keys, a common mask) are read
/// once. Not for use by several threads. If ranks have neighbouring rows (kernel::Ranks::rows),
/// each reads its rows of masks, biases and ready-made scores.
template <class T>
class HeadReader {
 public:
  /// `input` must outlive the reader and its heads. Masks, biases and ready-made scores of up to
  /// `dense_limit` bytes a head are held in memory; larger ones are read by tiles. `threads` work
  /// on projections.
  HeadReader(const AttentionSources& input, std::int64_t dense_limit, int threads);

  /// Throws Error(input) that names the dataset and the index of a number that is not finite,
  /// Error(numerical) for a projection beyond the format.
  std::shared_ptr<Head<T>> read(Index problem);

  /// The same for some queries of the own part of a head, as a separate head.
  std::shared_ptr<Head<T>> read(Index problem, RowRange queries);

 private:
  using Last = std::shared_ptr<Block<T>>;
  Last block(const Operand& operand, Index problem, RowRange rows, Last& last);
  Last block(const Operand& operand, Index problem, Last& last);
  std::shared_ptr<Block<T>> vectors(const Vectors& vectors, Index problem, RowRange rows,
                                    Last& last_input, Last& last);
  std::shared_ptr<Head<T>> read_part(Index problem, const OwnPart& part, Index first_query);
  std::optional<RankPart> rank_part(const TileRange& own) const;
  void read_vectors(Head<T>& head);
  void read_energy_operands(Head<T>& head);
  std::optional<RelativeBias<T>> relative(const HeadArrays<T>& arrays);
  void make_scores(Head<T>& head) const;

  const AttentionSources& input_;
  std::int64_t dense_limit_;
  int threads_;
  Last last_q_, last_k_, last_v_, last_x_, last_y_;
  Last last_table_, last_grad_out_, last_grad_joined_;
  std::vector<Last> last_energy_;
  // The last source made, and its block and part.
  template <class U>
  struct Matrix {
    Index index = -1;
    TileRange own;
    std::shared_ptr<OperandMatrix<U>> source;
  };
  Matrix<T> last_scores_, last_bias_, last_preference_, last_gate_;
  Matrix<std::uint8_t> last_mask_;
};

}  // namespace attn
