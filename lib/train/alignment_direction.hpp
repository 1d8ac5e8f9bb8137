#pragma once

#include <string>

#include "mechanisms/alignment.hpp"
#include "train/mechanism_layer.hpp"
#include "train/mechanism_model.hpp"
#include "train/softmax_layer.hpp"

namespace attn::train {

/// The alignment biases of mechanisms::Alignment.
struct AlignmentTerms {
  bool position = false;
  Index reach = 0;  ///< K for the weights of the word before; 0: no such term
};

/// One direction of a model from source to target: a BiLSTM or BiGRU over the source's vectors, and
/// a network with the same cell over the target's. Its state before word j attends to the source
/// with biases of alignment. The word is predicted by the softmax of a linear function of that
/// state and its context.
class AlignmentDirection {
 public:
  /// All names begin with `prefix`. Words of the target are below `vocabulary`. Dropout has the
  /// number `place`.
  AlignmentDirection(Parameters& parameters, const std::string& prefix,
                     const MechanismOptions& options, Index vocabulary, const AlignmentTerms& terms,
                     std::uint32_t place);

  /// Sequences and the vectors of their tokens, padding included.
  template <class T>
  struct Side {
    Sequences sequences;
    MatrixView<const T> vectors;
  };

  template <class T>
  struct Passed {
    RecurrentLayer::Kept<T> encoder, decoder;
    OwnedMatrix<T> encodings;
    OwnedMatrix<T> states;
    OwnedMatrix<T> weights;   ///< (sequences, J·I), if they were requested
    OwnedMatrix<T> features;  ///< by word: the state and the context
  };

  template <class T>
  void forward(const Slot<T>& slot, const Side<T>& source, const Side<T>& input, bool with_weights,
               Passed<T>& passed) const;

  /// The predictions of targets, which are rows of the input. Writes the gradients of the softmax,
  /// and adds the gradient of the features to `dfeatures` if it has data.
  template <class T>
  Prediction predict(const Slot<T>& slot, const Passed<T>& passed, const Targets& targets,
                     double factor, MatrixView<T> dfeatures) const;

  /// From the gradients of the features and, unless empty, of the weights: writes the gradients of
  /// the other tensors and adds the gradients of the vectors.
  template <class T>
  void backward(const Slot<T>& slot, const Side<T>& source, const Side<T>& input, Passed<T>& passed,
                OwnedMatrix<T>& dfeatures, const OwnedMatrix<T>& dweights, MatrixView<T> dsource,
                MatrixView<T> dinput) const;

  /// SoftmaxLayer::logits for the features of the rows.
  template <class T>
  OwnedMatrix<T> logits(const Slot<T>& slot, MatrixView<const T> features) const {
    return softmax_.logits(slot.weights, features);
  }

  Index feature_width() const { return decoder_.outputs() + encoder_.outputs(); }

  template <class T>
  PassBytes bytes(const Sequences& source, const Sequences& input, bool with_weights) const;

 private:
  template <class T>
  mechanisms::Batch<T> batch_of(const Slot<T>& slot, const Side<T>& source, const Side<T>& input,
                                const Passed<T>& passed) const;

  RecurrentLayer encoder_;
  RecurrentLayer decoder_;
  MechanismLayer attention_;
  SoftmaxLayer softmax_;
  std::uint32_t place_;
};

}  // namespace attn::train
