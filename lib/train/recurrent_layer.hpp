#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mechanisms/gru.hpp"
#include "mechanisms/lstm.hpp"
#include "train/parameters.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

enum class RecurrentCell { lstm, gru };

/// A recurrent network over each sequence, from a state of 0. Its results are the states of all
/// positions, forwards or for both directions side by side. The cells are mechanisms::Lstm and
/// mechanisms::Gru.
class RecurrentLayer {
 public:
  struct Options {
    RecurrentCell cell = RecurrentCell::lstm;
    Index inputs = 0;
    Index width = 0;  ///< of the states of one direction
    bool both_ways = false;
    std::optional<double> deviation;  ///< see start_deviation, for the matrix of each gate
  };

  /// Adds PREFIXw (gates·width, width + inputs) and PREFIXb, and for the other direction
  /// PREFIXback_w and PREFIXback_b.
  RecurrentLayer(Parameters& parameters, const std::string& prefix, const Options& options);

  /// The data that the forward pass keeps, by direction and sequence.
  template <class T>
  struct Kept {
    std::vector<typename mechanisms::Lstm<T>::Kept> lstm;
    std::vector<typename mechanisms::Gru<T>::Kept> gru;
  };

  Index outputs() const { return directions() * options_.width; }

  /// States (rows, outputs); 0 for padding.
  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, const Sequences& sequences, MatrixView<const T> x,
                         Kept<T>& kept) const;

  /// Writes the gradients of the layer's tensors and adds the gradient of x to `dx`. Changes the
  /// kept data.
  template <class T>
  void backward(const Slot<T>& slot, const Sequences& sequences, MatrixView<const T> x,
                Kept<T>& kept, MatrixView<const T> dy, MatrixView<T> dx) const;

  template <class T>
  PassBytes bytes(const Sequences& sequences) const;

 private:
  struct Tensors {
    MatrixPlace w;
    Index b = 0;
  };

  Index directions() const { return std::ssize(tensors_); }
  Index gates() const { return options_.cell == RecurrentCell::lstm ? 4 : 3; }

  /// Calls body(cell, kept results of the cell) for a direction.
  template <class T, class Body>
  void with_cell(const Slot<T>& slot, Index direction, Kept<T>& kept, const Body& body) const;

  Options options_;
  std::vector<Tensors> tensors_;  // by direction
};

}  // namespace attn::train
