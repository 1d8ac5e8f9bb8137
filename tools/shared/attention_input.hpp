#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "score/scores.hpp"
#include "shared/score_options.hpp"
#include "tensor/batch.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// A dataset of which each problem uses one block.
struct Operand {
  io::InputDataset dataset;
  Shape leading;   ///< its leading axes
  Index rows = 1;  ///< of a block; for a mask or bias 1 where it stretches
  Index cols = 1;
  LeadingMap block;  ///< problem → block
};

/// The attention problems of a bundle (one per position of the leading axes, a *head* for short),
/// with everything about shapes and types checked, and nothing read yet.
struct AttentionInput {
  /// Throws Error(input) naming the datasets whose rank, shape or type does not fit, Error(usage)
  /// for an open causal alignment. `with_values`: v is wanted where there is one.
  AttentionInput(const io::InputBundle& bundle, const ScoreOptions& options, bool with_values);

  ScoreOptions options;
  Causal causal = Causal::none;
  Shape leading;  ///< of the results
  Index problems = 1;
  Index queries = 0;      ///< Lq
  Index keys = 0;         ///< Lk
  Index depth = 0;        ///< d; 0 for ready-made scores
  Index value_depth = 0;  ///< dv; 0 without v
  std::optional<Operand> q, k, v, scores, mask, bias;
  bool any_float64 = false;  ///< among what is computed with

  /// For the report: every dataset that is read.
  std::vector<io::InputDataset> datasets() const;

  /// Bytes one head takes in memory at float32 or float64, dense matrices up to `dense_limit` bytes
  /// held and larger ones read by tiles.
  std::int64_t head_bytes(std::size_t element_size, std::int64_t dense_limit) const;
};

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

/// A matrix operand (mask, bias, scores, weights) as a source for one problem, in memory or by
/// tiles. float and double sources refuse NaN and +inf, naming the element.
template <class T>
std::shared_ptr<MatrixSource<T>> matrix_source(const Operand& operand, Index problem,
                                               std::int64_t dense_limit);

/// The operand called `name`, of shape (…, rows or 1, cols or 1) broadcasting to leading.
Operand matrix_operand(const io::InputBundle& bundle, const std::string& name, const Shape& leading,
                       Index rows, Index cols);

/// One finite number per problem from a dataset that is a scalar or aligned with the last leading
/// axes; used for `hybrid`. Throws Error(input) naming it where a value lies outside [low, high].
std::vector<double> numbers_per_problem(const io::InputDataset& dataset, const Shape& leading,
                                        double low, double high);

}  // namespace attn::tools
