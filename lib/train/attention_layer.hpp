#pragma once

#include <optional>
#include <string>

#include "train/head_attention.hpp"

namespace attn::train {

struct AttentionLayerOptions {
  AttentionScheme scheme;
  bool causal = false;
  Index width = 0;
  Index heads = 1;
  Index positions = 0;       ///< for learned preferences: the most keys of a sequence
  double first_share = 0.5;  ///< u of hnas at the start, in (0, 1)
  double deviation = 0;      ///< of W_Q, W_K and W_V at the start
  double out_deviation = 0;  ///< of W_O
  bool in_paths = false;     ///< W_Q and W_K step in paths: no bit depends on their scale

  Index depth() const { return width / heads; }
};

/// Attention with several heads: per head, queries Q = x W_Qᵀ, keys K = y W_Kᵀ, values V = y W_Vᵀ,
/// attention by HeadAttention; the heads side by side, times W_O. There are no biases. W_Q, W_K,
/// W_V (heads·d, width) hold the rows of head h from h·d on; W_O (width, heads·d).
class AttentionLayer {
 public:
  /// Adds PREFIXwq, wk, wv, wo, and what HeadAttention adds. Throws Error(usage) unless the number
  /// of heads divides the width. `place` is the number of the dropout of weights; see Dropout.
  AttentionLayer(Parameters& parameters, const std::string& prefix,
                 const AttentionLayerOptions& options, std::uint32_t place);

  template <class T>
  using Kept = HeadAttention::Kept<T>;

  /// Attention of the rows x to the rows y, which may be the same.
  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, const Sequences& queries, MatrixView<const T> x,
                         const Sequences& keys, MatrixView<const T> y, Kept<T>& kept) const;

  /// Writes the gradients of the layer's tensors; adds ∂L/∂x to dx and ∂L/∂y to dy, which may be
  /// the same.
  template <class T>
  void backward(const Slot<T>& slot, const Sequences& queries, MatrixView<const T> x,
                const Sequences& keys, MatrixView<const T> y, const Kept<T>& kept,
                MatrixView<const T> dout, MatrixView<T> dx, MatrixView<T> dy) const;

  /// Bytes of attention to keys; the keys may belong to the queries' own sequences. Without the
  /// plan: see HeadAttention::plan_bytes.
  template <class T>
  PassBytes bytes(const Sequences& queries, const Sequences& keys, bool same) const;

  /// See HeadAttention::column_sums.
  template <class T>
  OwnedMatrix<double> column_sums(const Slot<T>& slot, const Sequences& queries,
                                  const Sequences& keys, const Kept<T>& kept) const {
    return heads_.column_sums(slot, queries, keys, kept);
  }

  /// Keys and values to which later queries attend, (sequences, heads, most, d). Sequence n has its
  /// first lengths[n] positions.
  template <class T>
  struct KeptKeys {
    OwnedMatrix<T> k, v;
    Index most = 0;
    std::vector<Index> lengths;

    /// Sequence n becomes a copy of sequence from[n].
    void choose(const std::vector<Index>& from);
  };

  /// Makes an empty past with room for `most` positions of each sequence.
  template <class T>
  KeptKeys<T> no_keys(Index sequences, Index most) const;

  /// Adds the keys and values of the rows y: the same number for each sequence, one sequence after
  /// the other.
  template <class T>
  void add_keys(const Slot<T>& slot, MatrixView<const T> y, KeptKeys<T>& keys) const;

  /// Attention of the rows x, the same number for each sequence, to all keys of the sequence so
  /// far. Under unas, where weights do not depend on other queries, these are the rows that
  /// `forward` returns for queries that see these keys. Throws Error(usage) for any other scheme.
  template <class T>
  OwnedMatrix<T> attend(const Slot<T>& slot, MatrixView<const T> x, const KeptKeys<T>& keys) const;

  const AttentionLayerOptions& options() const { return options_; }

  /// The group of the layer's tensors in a checkpoint: PREFIX without the last slash.
  const std::string& group() const { return group_; }

  /// The shares u for given weights; none unless the scheme is hnas.
  template <class T>
  std::vector<double> shares(const T* weights) const {
    return heads_.shares(weights);
  }

  const HeadAttention& heads() const { return heads_; }
  MatrixPlace wq() const { return wq_; }
  MatrixPlace wk() const { return wk_; }
  MatrixPlace wv() const { return wv_; }
  MatrixPlace wo() const { return wo_; }

 private:
  template <class T>
  void project(const Slot<T>& slot, const Sequences& queries, MatrixView<const T> x,
               const Sequences& keys, MatrixView<const T> y, Kept<T>& kept) const;
  template <class T>
  OwnedMatrix<T> joined_out(const Slot<T>& slot, const OwnedMatrix<T>& out,
                            const Sequences& queries) const;

  AttentionLayerOptions options_;
  std::string group_;
  MatrixPlace wq_, wk_, wv_, wo_;  // the first three one after the other
  HeadAttention heads_;
};

/// An attention in a forward pass: views of the arrays that the pass keeps.
template <class T>
struct AttentionSite {
  const AttentionLayer* layer = nullptr;
  Sequences queries, keys;
  MatrixView<const T> x;  ///< the input of W_Q, after a norm that precedes it
  MatrixView<const T> y;  ///< the input of W_K and W_V; x in self-attention
  const AttentionLayer::Kept<T>* kept = nullptr;
};

}  // namespace attn::train
