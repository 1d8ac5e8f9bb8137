#pragma once

#include <cstdint>
#include <vector>

#include "attnkit/tensor.hpp"
#include "mechanisms/form.hpp"
#include "tensor/view.hpp"

namespace attn::mechanisms {

/// Tensors in the order of a form; a tensor without data is absent.
template <class T>
using Tensors = std::vector<TensorView<T>>;

/// The inputs of a mechanism for one sequence, with its own lengths.
template <class T>
struct Sequence {
  Tensors<const T> inputs;
  Tensors<const Index> tokens;
};

/// A mechanism of attention: a function of one sequence's inputs and of shared weights, with its
/// gradients. Shapes fit the form, and all numbers are finite.
template <class T>
class Mechanism {
 public:
  virtual ~Mechanism() = default;

  virtual const MechanismForm& form() const = 0;

  /// Computes the results that have data. Throws Error(numerical) for a number beyond the range of
  /// T.
  virtual void forward(const Sequence<T>& sequence, const Tensors<T>& results,
                       int threads) const = 0;

  /// From the gradients of a loss with respect to the results (absent: 0), writes the gradients
  /// with respect to the inputs that have data in `gradients`.
  virtual void backward(const Sequence<T>& sequence, const Tensors<const T>& grad_results,
                        const Tensors<T>& gradients, int threads) const = 0;

  /// The most working memory of a call, for lengths up to `sizes`.
  virtual std::int64_t working_bytes(const Sizes& sizes, bool gradients) const = 0;
};

/// A tensor with two axes as a matrix, with one axis as a row.
template <class T>
MatrixView<T> matrix(const TensorView<T>& tensor) {
  if (!tensor) return {};
  if (tensor.shape.size() == 1) return {tensor.data, 1, tensor.shape[0]};
  return {tensor.data, tensor.shape[0], tensor.shape[1]};
}

}  // namespace attn::mechanisms
