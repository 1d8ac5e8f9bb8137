#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mechanisms/batch.hpp"
#include "train/parameters.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// A mechanism of lib/mechanisms as a layer: its shared inputs are parameters, and the sequences of
/// a slot are its batch.
class MechanismLayer {
 public:
  struct Options {
    std::shared_ptr<const mechanisms::Mechanism<float>> f32;
    std::shared_ptr<const mechanisms::Mechanism<double>> f64;
    mechanisms::Sizes sizes;          ///< of all axes of the mechanism's shared inputs
    std::set<std::string> absent;     ///< the optional shared inputs that are absent
    std::optional<double> deviation;  ///< see start_deviation
  };

  /// Options of mechanism M, such as mechanisms::Structured.
  template <class M>
  static Options of(mechanisms::Sizes sizes, std::optional<double> deviation,
                    std::set<std::string> absent = {}) {
    return {M::template make<float>(), M::template make<double>(), std::move(sizes),
            std::move(absent), deviation};
  }

  /// Adds PREFIX and the name of each shared input, with its shape. Biases, which are the optional
  /// inputs with one axis in the mechanism's form, start with 0; the others with normal numbers of
  /// start_deviation. All gates of a cell count as one matrix.
  MechanismLayer(Parameters& parameters, const std::string& prefix, const Options& options);

  /// The batch of a slot with `count` sequences, with the weights. The caller adds the sizes of the
  /// other axes, inputs and tokens of sequences, and lengths.
  template <class T>
  mechanisms::Batch<T> batch(const Slot<T>& slot, Index count) const;

  /// Computes the results that have data.
  template <class T>
  void forward(const mechanisms::Batch<T>& batch, const mechanisms::Tensors<T>& results) const;

  /// Writes the gradients of the weights. `gradients` has an element for each input of sequences;
  /// the gradient of the input is written to it if the element has data.
  template <class T>
  void backward(const Slot<T>& slot, const mechanisms::Batch<T>& batch,
                const mechanisms::Tensors<const T>& grad_results,
                mechanisms::Tensors<T> gradients) const;

  /// The bytes for a batch of `count` sequences and the default results of the form, with the sizes
  /// of axes that no weight has.
  template <class T>
  PassBytes bytes(const mechanisms::Sizes& sizes, Index count) const;

  const mechanisms::MechanismForm& form() const { return options_.f64->form(); }

  /// The place of a shared input.
  MatrixPlace weight(std::size_t input) const;

 private:
  struct Weight {
    std::size_t input;
    Shape shape;
    Index offset;
  };

  template <class T>
  const mechanisms::Mechanism<T>& mechanism() const;

  Options options_;
  std::vector<Weight> weights_;
};

/// A tensor of a mechanism in the caller's memory.
template <class T>
TensorView<T> tensor(T* data, const Shape& shape) {
  return {data, shape};
}

/// The rows of sequences as a tensor (count, length, cols).
template <class T>
TensorView<const T> sequence_tensor(const OwnedMatrix<T>& rows, const Sequences& sequences) {
  return {rows.data(), {sequences.count, sequences.length, rows.cols()}};
}
template <class T>
TensorView<T> sequence_tensor(OwnedMatrix<T>& rows, const Sequences& sequences) {
  return {rows.data(), {sequences.count, sequences.length, rows.cols()}};
}

/// The lengths of sequences as lengths of a mechanism; absent if all are whole.
inline TensorView<const Index> lengths_of(const Sequences& sequences) {
  if (sequences.lengths == nullptr) return {};
  return {sequences.lengths, {sequences.count}};
}

}  // namespace attn::train
