#pragma once

#include "attnkit/attention.hpp"
#include "mechanisms/rows.hpp"

namespace attn::mechanisms {

/// Attention by softmax of products without a scale: out = softmax_j(q_i·k_j) v, for one sequence.
template <class T>
class DotAttention {
 public:
  DotAttention(MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v, int threads)
      : inputs_(inputs_of(q, k, v)), plan_(shapes_of(inputs_), options(), threads) {}

  /// Writes `weights` only if it has data.
  void forward(MatrixView<T> out, MatrixView<T> weights) {
    AttentionOutputs<T> outputs;
    outputs.out = view_of(out);
    if (weights.data != nullptr) outputs.weights = view_of(weights);
    plan_.run(inputs_, outputs);
  }

  /// Writes the gradients of q, k and v.
  void backward(MatrixView<const T> grad_out, MatrixView<T> dq, MatrixView<T> dk,
                MatrixView<T> dv) {
    AttentionGradients<T> gradients;
    gradients.q = view_of(dq);
    gradients.k = view_of(dk);
    gradients.v = view_of(dv);
    plan_.gradients(inputs_, view_of(grad_out), gradients);
  }

 private:
  template <class Element>
  static TensorView<Element> view_of(MatrixView<Element> matrix) {
    return {matrix.data, {matrix.rows, matrix.cols}};
  }

  static AttentionInputs<T> inputs_of(MatrixView<const T> q, MatrixView<const T> k,
                                      MatrixView<const T> v) {
    AttentionInputs<T> inputs;
    inputs.q = view_of(q);
    inputs.k = view_of(k);
    inputs.v = view_of(v);
    return inputs;
  }

  static AttentionOptions options() {
    AttentionOptions options;
    options.energy = "dot";
    return options;
  }

  AttentionInputs<T> inputs_;
  AttentionPlan<T> plan_;
};

}  // namespace attn::mechanisms
