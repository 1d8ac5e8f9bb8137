#pragma once

#include <memory>
#include <optional>

#include "score/scores.hpp"
#include "shared/attention_input.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// A row-major block read and found finite, shared by the heads that use it.
template <class T>
struct Block {
  Index index = -1;
  Buffer<T> values;
};

/// One head in memory, with its scores.
template <class T>
class Head {
 public:
  Index problem = 0;
  const Scores<T>& scores() const { return *scores_; }
  MatrixView<const T> v() const { return v_; }

 private:
  template <class U>
  friend class HeadReader;
  std::shared_ptr<Block<T>> q_block_, k_block_, v_block_;
  MatrixView<const T> v_;
  std::shared_ptr<MatrixSource<T>> stored_, bias_;
  std::shared_ptr<MatrixSource<std::uint8_t>> mask_;
  std::unique_ptr<Energy<T>> energy_;
  std::optional<Scores<T>> scores_;
};

/// Reads heads in order; blocks that consecutive heads share (grouped keys, a common mask) are read
/// once. Not for use by several threads.
template <class T>
class HeadReader {
 public:
  /// `input` must outlive the reader and its heads. Masks, biases and ready-made scores of up to
  /// `dense_limit` bytes a head are held in memory, larger ones read by tiles.
  HeadReader(const AttentionInput& input, std::int64_t dense_limit);

  /// Throws Error(input) naming dataset and index of what is not finite.
  std::shared_ptr<Head<T>> read(Index problem);

 private:
  std::shared_ptr<Block<T>> vectors(const Operand& operand, Index problem,
                                    std::shared_ptr<Block<T>>& last);
  const AttentionInput& input_;
  std::int64_t dense_limit_;
  std::shared_ptr<Block<T>> last_q_, last_k_, last_v_;
  // Keyed by block: the last source made, and for which block.
  template <class U>
  struct Matrix {
    Index index = -1;
    std::shared_ptr<MatrixSource<U>> source;
  };
  Matrix<T> last_scores_, last_bias_;
  Matrix<std::uint8_t> last_mask_;
};

}  // namespace attn::tools
