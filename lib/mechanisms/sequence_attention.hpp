#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "attnkit/attention.hpp"
#include "mechanisms/mechanism.hpp"

namespace attn::mechanisms {

/// The attentions that a mechanism computes for each sequence, as with one for each view. Their
/// plans are kept for sequences of the same lengths, because making a plan takes longer than the
/// attention of some tens of positions. Thread-safe.
template <class T>
class SequenceAttention {
 public:
  /// `attentions` is their number. They have the same options.
  SequenceAttention(std::size_t attentions, const AttentionOptions& options)
      : options_(options), idle_(attentions) {}

  /// AttentionPlan::run for attention number `which`.
  AttentionSummary run(std::size_t which, const AttentionInputs<T>& inputs,
                       const AttentionOutputs<T>& outputs, int threads) const {
    const Lent lent(*this, which, inputs, threads);
    return lent.plan().run(inputs, outputs);
  }

  /// AttentionPlan::gradients for attention number `which`.
  AttentionSummary gradients(std::size_t which, const AttentionInputs<T>& inputs,
                             const TensorView<const T>& grad_out,
                             const AttentionGradients<T>& gradients, int threads) const {
    const Lent lent(*this, which, inputs, threads);
    return lent.plan().gradients(inputs, grad_out, gradients);
  }

  /// The bytes that one attention with these shapes takes and keeps, for each call at a time, on
  /// one thread each; 0 if q, k or v is empty.
  std::int64_t bytes(const AttentionShapes& shapes, bool gradients) const;

 private:
  struct Kept {
    std::array<Shape, 3> shapes;  // of q, k and v
    int threads;
    AttentionPlan<T> plan;
  };

  // A plan out of the idle ones, or a new one, until the end of the scope.
  class Lent {
   public:
    Lent(const SequenceAttention& from, std::size_t which, const AttentionInputs<T>& inputs,
         int threads);
    ~Lent();
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;

    AttentionPlan<T>& plan() const { return kept_->plan; }

   private:
    const SequenceAttention& from_;
    std::size_t which_;
    std::unique_ptr<Kept> kept_;
  };

  AttentionOptions options_;
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<std::unique_ptr<Kept>>> idle_;  // by attention
};

/// A matrix as a tensor with two axes.
template <class Element>
TensorView<Element> tensor_of(MatrixView<Element> matrix) {
  return {matrix.data, {matrix.rows, matrix.cols}};
}

/// The operands of attention, the results (`weights` without data: not computed), and the
/// gradients.
template <class T>
AttentionInputs<T> attention_inputs(MatrixView<const T> q, MatrixView<const T> k,
                                    MatrixView<const T> v) {
  AttentionInputs<T> inputs;
  inputs.q = tensor_of(q);
  inputs.k = tensor_of(k);
  inputs.v = tensor_of(v);
  return inputs;
}

template <class T>
AttentionOutputs<T> attention_outputs(MatrixView<T> out, const TensorView<T>& weights) {
  AttentionOutputs<T> outputs;
  outputs.out = tensor_of(out);
  outputs.weights = weights;
  return outputs;
}

template <class T>
AttentionGradients<T> attention_gradients(MatrixView<T> q, MatrixView<T> k, MatrixView<T> v) {
  AttentionGradients<T> gradients;
  gradients.q = tensor_of(q);
  gradients.k = tensor_of(k);
  gradients.v = tensor_of(v);
  return gradients;
}

/// The options of attention by softmax of products without a scale.
inline AttentionOptions dot_product_options() {
  AttentionOptions options;
  options.energy = "dot";
  return options;
}

}  // namespace attn::mechanisms
