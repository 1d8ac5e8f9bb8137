#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/parameters.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// The positional term that is added to a token's vector.
enum class Positions {
  none,
  learned,
  sinusoidal,  ///< P[t, 2c] = sin(t/10000^(2c/D)), P[t, 2c + 1] = cos of the same
};

/// The token of a position of padding: its vector is 0 and has no gradient.
inline constexpr Index padding_token = -1;

/// x_t = E[token_t] + P[t], with dropout.
class Embedding {
 public:
  struct Options {
    Index vocabulary = 0;
    Index width = 0;
    Index length = 0;  ///< the most positions
    Positions positions = Positions::learned;
    double deviation = 0.02;
    bool tied = false;  ///< E is the matrix of the softmax, too, whose layer writes its gradient
  };

  /// Adds PREFIXtokens (vocabulary, width) and, for learned ones, PREFIXpositions (length, width).
  Embedding(Parameters& parameters, const std::string& prefix, const Options& options,
            std::uint32_t place);

  /// The same tensors for other tokens, with separate dropout.
  Embedding at(std::uint32_t place) const {
    Embedding other = *this;
    other.place_ = place;
    return other;
  }

  /// The rows of `sequences`, whose tokens follow each other, padding included. Each sequence
  /// begins at position `first`.
  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, const Sequences& sequences, const Index* tokens,
                         Index first = 0) const;

  /// Writes the gradient of the positions and turns dx = ∂L/∂x into the gradients of the tokens'
  /// vectors, row by row; rows of padding have no meaning. add_rows adds the rows to E's gradient.
  template <class T>
  void backward(const Slot<T>& slot, const Sequences& sequences, const Index* tokens,
                OwnedMatrix<T>& dx) const;

  /// Adds row r of `rows` to the row tokens[r] of E's gradient, in order.
  template <class T>
  void add_rows(const OwnedMatrix<T>& rows, const Index* tokens, T* gradients) const;

  /// The bytes for these sequences.
  template <class T>
  PassBytes bytes(const Sequences& sequences) const {
    const bool computes = options_.positions == Positions::sinusoidal;
    const std::int64_t all = row_bytes<T>(sequences.rows(), options_.width);
    return {0, all + (computes ? row_bytes<T>(sequences.length, options_.width) : 0), 0};
  }

  MatrixPlace table() const { return table_; }

 private:
  Options options_;
  MatrixPlace table_;
  MatrixPlace learned_;
  std::uint32_t place_;
};

}  // namespace attn::train
