#pragma once

#include <compare>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "head/attention_sources.hpp"
#include "head/head.hpp"
#include "head/matrix_operand.hpp"
#include "head/number_check.hpp"
#include "head/seen_of.hpp"
#include "head/shared_parts.hpp"
#include "scheme/scheme_description.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// A head, or some neighbouring queries of it.
struct HeadPart {
  Index problem = 0;
  std::optional<RowRange> queries = std::nullopt;    ///< of the own part of the head; absent: all
  std::optional<SeenOfProblem> seen = std::nullopt;  ///< absent: those of seen_of
};

/// One head with its scores: the queries and keys that are not padding. Its operands are those of a
/// HeadReader, which must outlive it and not read the next batch.
template <class T>
class Head {
 public:
  Head() = default;
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  Index problem = 0;
  OwnPart part;

  /// The scores for `scheme`. Scores of a scheme with a preference include the preference (but
  /// under transport) and α.
  const Scores<T>& scores(Scheme scheme) const {
    return (description_of(scheme).has_preference() ? preferring_ : plain_)->scores();
  }
  /// The scores for any scheme of the input: all allow the same pairs, except that a preference of
  /// 0 forbids a pair.
  const Scores<T>& scores() const { return (plain_ ? plain_ : preferring_)->scores(); }

  /// The operands of the scores, the values, and the gradient of the loss with respect to the
  /// output; absent ones are empty.
  const HeadArrays<T>& arrays() const { return arrays_; }
  const MatrixView<const T>& q() const { return arrays_.q; }
  const MatrixView<const T>& k() const { return arrays_.k; }
  const MatrixView<const T>& v() const { return arrays_.v; }
  const MatrixView<const T>& grad_out() const { return grad_out_; }

  /// What they are computed from; views without data if they are read as they are.
  const ProjectedFrom<T>& made_of_q() const { return made_of_q_; }
  const ProjectedFrom<T>& made_of_k() const { return made_of_k_; }
  const ProjectedFrom<T>& made_of_v() const { return made_of_v_; }
  /// The gradient of the joined heads, and this head's wo.
  const ProjectedFrom<T>& made_of_grad_out() const { return made_of_grad_out_; }

  /// The smallest finite bias of this head if it is below 0, else 0; always 0 for a bias in the
  /// caller's memory.
  double least_bias() const { return least_bias_; }

 private:
  template <class U>
  friend class HeadReader;
  HeadArrays<T> arrays_;
  MatrixView<const T> grad_out_;
  ProjectedFrom<T> made_of_q_, made_of_k_, made_of_v_, made_of_grad_out_;
  double least_bias_ = 0;
  std::optional<TransportKernel> transport_;
  std::optional<RelativeBias<T>> relative_;
  std::optional<HeadScores<T>> plain_, preferring_;
};

/// Makes the heads of a batch ready: reads their operands from the sources, checks the numbers, and
/// projects. Numbers that lie in the caller's memory are used where they are. Queries and keys that
/// are not seen (seen_of.hpp) count as 0; finite ones in the caller's memory stay as they are,
/// unless the energy is a cost of points. What heads share (grouped keys, a common mask) is read,
/// checked and projected once. If ranks have neighbouring rows (Ranks::rows), each reads its rows
/// of masks, biases and ready-made scores.
template <class T>
class HeadReader {
 public:
  /// `sources` must outlive the reader. Masks, biases and ready-made scores of up to `dense_limit`
  /// bytes a head are held in memory; larger ones are read by tiles, unless they lie in memory.
  /// `threads` check numbers and project.
  HeadReader(const AttentionSources& sources, std::int64_t dense_limit, int threads);

  /// Reads a batch, and drops of the batch before what this one does not share. Numbers in the
  /// caller's memory may have changed since. Without `products`, nothing is projected, and heads
  /// have only what they are made of. Throws Error(input) that names the array and the index of a
  /// number that is not allowed, Error(numerical) for a projection beyond the format, and Stopped.
  void read(std::span<const HeadPart> batch, bool products = true);

  /// Makes the n-th head of the batch, on `threads` threads. May be called from several threads.
  /// Throws the errors of HeadScores.
  void make(Index n, int threads, Head<T>& head) const;

  /// Head::least_bias of the n-th head of the batch.
  double least_bias(Index n) const;

  /// The most bytes of lists that the reader keeps for a batch of `count` heads, besides blocks.
  std::int64_t list_bytes(Index count) const;

 private:
  struct Part {
    Index problem = 0;
    OwnPart own;
    Index first_query = 0;
    SeenOfProblem seen = {};
  };

  // Some rows of a block of an operand, or the product of two blocks.
  struct BlockKey {
    Index block = 0;    // of the operand, or of a product's input
    Index weights = 0;  // of a product
    Index bias = 0;
    Index first = 0;  // row
    Index rows = 0;
    Index position = 0;  // of the first row, if rows are rotated
    Index packing = 0;   // which one says the positions
    SeenRows seen = {};  // rows that are not are 0 in place of what is stored
    auto operator<=>(const BlockKey&) const = default;
  };
  struct Block {
    MatrixView<const T> values;
    Buffer<T> storage;  // unless they lie in memory
    void reserve(Index rows, Index cols);
  };
  using Blocks = SharedParts<BlockKey, Block>;
  // A block with rows that are not seen, and its part of the check.
  struct Unseen {
    typename Blocks::Part* part;
    std::size_t check;
    bool is_point;  // of an energy that is a cost of points
  };
  // The blocks of one array that a batch uses, for one or several operands.
  struct Set {
    Operand operand;
    Blocks blocks;
  };
  // A block for each head of the batch: those that the list of `blocks` has from `first` on.
  struct Use {
    Blocks* blocks = nullptr;
    Index first = 0;
    explicit operator bool() const { return blocks != nullptr; }
    MatrixView<const T> of(Index n) const {
      return blocks == nullptr ? MatrixView<const T>() : blocks->of(first + n).values;
    }
  };
  // q, k, v or the gradient of the output.
  struct Vector {
    Use input, weights, bias;
    Use all_weights, all_bias;  // for a norm over all heads: those of each head in turn
    SharedParts<BlockKey, Buffer<double>> moments;
    Blocks products;

    MatrixView<const T> of(Index n) const { return weights ? products.of(n).values : input.of(n); }
  };

  struct MatrixKey {
    Index block = 0;
    Index row0 = 0, rows = 0, col0 = 0, cols = 0;
    auto operator<=>(const MatrixKey&) const = default;
  };
  template <class U>
  struct Matrix {
    std::shared_ptr<OperandMatrix<U>> read;
    std::optional<BroadcastMatrix<U>> in_memory;
    std::optional<std::size_t> check;  // its part of the check

    const MatrixSource<U>* source() const {
      return in_memory ? static_cast<const MatrixSource<U>*>(&*in_memory) : read.get();
    }
  };
  template <class U>
  using Matrices = SharedParts<MatrixKey, Matrix<U>>;

  bool take_parts(std::span<const HeadPart> batch);
  Set& set_of(const Operand& operand);
  template <class Rows>
  Use want(const Operand& operand, const Rows& rows);
  Use want(const std::optional<Operand>& operand);
  template <class Rows>
  void want(const std::optional<Vectors>& from, const Rows& rows, Vector& vector);
  void want_all();
  void load(Set& set);
  void look();
  void clear_unseen(bool products);
  void require_bf16(const std::optional<Vectors>& from, const Vector& vector) const;
  Use want_heads(const Operand& operand);
  RowPositions positions(const Vector& vector, Index n) const;
  ProjectedFrom<T> made_of(const std::optional<Vectors>& from, const Vector& vector, Index n) const;
  void find_moments(const Vectors& from, Vector& vector, Index n, Buffer<double>& moments);
  void project_all(const std::optional<Vectors>& from, Vector& vector, bool products);
  void project_one(const Vectors& from, Vector& vector, typename Blocks::Part& part, int threads);
  template <class U>
  void want(const std::optional<Operand>& operand, Matrices<U>& matrices,
            std::optional<Index> cols = std::nullopt);
  void want_cost();
  template <class U>
  void place(const std::optional<Operand>& operand, Matrices<U>& matrices);
  template <class U>
  void finish(const std::optional<Operand>& operand, Matrices<U>& matrices, bool by_rank = true);
  std::optional<RankPart> rank_part(const TileRange& own) const;

  const AttentionSources& sources_;
  std::int64_t dense_limit_;
  int threads_;
  std::vector<Part> parts_, parts_before_;
  bool has_grad_out_ = false;
  bool settled_ = false;  // whether the lists of blocks belong to parts_
  std::deque<Set> sets_;
  Vector q_, k_, v_, grad_out_;
  std::vector<Use> energy_;
  Use table_;  // of relative positions
  Matrices<T> scores_, bias_, preference_, cost_, gate_;
  Matrices<std::uint8_t> mask_;
  NumberCheck<T> numbers_;
  std::vector<Unseen> unseen_;
};

}  // namespace attn
