#pragma once

#include <string>
#include <vector>

#include "train/head_attention.hpp"

namespace attn::train {

struct MultiViewOptions {
  AttentionScheme scheme;
  Index views = 2;  ///< the primary one included
  Index width = 0;
  Index heads = 1;
  double first_share = 0.5;  ///< u of hnas at the start, in (0, 1)
  double deviation = 0;      ///< of W_Q and W_K at the start

  Index depth() const { return width / heads; }
};

/// Σ_v π_v S_v over the secondary views v = 1, 2, …: the features S_v of each, untransformed, are
/// the values; π_v are the weights of queries x W_Qᵀ of the primary view x and keys S_v W_Kvᵀ, with
/// a W_Kv for each view, as views have different features. W_Q and W_Kv (heads·d, width) hold the
/// rows of head h from h·d on, d = width/heads; the values of head h are the features from h·d on.
/// All views share u of hnas. Boxes are data without gradients. (MATHEMATICS.md §8; EA B)
class MultiViewAttention {
 public:
  /// Adds PREFIXwq, wk1, wk2, …, and rho under hnas. Throws Error(usage) unless there are at least
  /// two views and the number of heads divides the width. The dropout of the weights of view v has
  /// the number place + v − 1; see Dropout.
  MultiViewAttention(Parameters& parameters, const std::string& prefix,
                     const MultiViewOptions& options, std::uint32_t place);

  /// The rows of a view and the scenes to which they belong.
  template <class T>
  struct View {
    Sequences sequences;
    MatrixView<const T> rows;
  };

  template <class T>
  struct Kept {
    std::vector<HeadAttention::Kept<T>> views;  ///< the secondary ones
  };

  /// Gathers the secondary views, views[1], views[2], …, for each row of views[0]; 0 for padding. A
  /// view without boxes adds nothing.
  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, const std::vector<View<T>>& views,
                         Kept<T>& kept) const;

  /// Writes the gradients of the layer's tensors.
  template <class T>
  void backward(const Slot<T>& slot, const std::vector<View<T>>& views, const Kept<T>& kept,
                MatrixView<const T> dout) const;

  /// By secondary view, c_j = Σ_i π_ij of all boxes of all scenes and heads, without padding and
  /// dropout, in the order (scenes, heads, boxes).
  template <class T>
  std::vector<std::vector<double>> column_sums(const Slot<T>& slot,
                                               const std::vector<View<T>>& views,
                                               const Kept<T>& kept) const;

  /// The bytes if every view has these boxes. Without the plan: see HeadAttention::plan_bytes.
  template <class T>
  PassBytes bytes(const Sequences& boxes) const;

  const MultiViewOptions& options() const { return options_; }

  /// The shares u for given weights; none unless the scheme is hnas.
  template <class T>
  std::vector<double> shares(const T* weights) const {
    return heads_.front().shares(weights);
  }

  /// The attention of the first secondary view. The others have the same options and the same u.
  const HeadAttention& heads() const { return heads_.front(); }
  MatrixPlace wq() const { return wq_; }
  /// By secondary view.
  const std::vector<MatrixPlace>& wk() const { return wk_; }

 private:
  MultiViewOptions options_;
  MatrixPlace wq_;
  std::vector<MatrixPlace> wk_;
  std::vector<HeadAttention> heads_;
};

}  // namespace attn::train
