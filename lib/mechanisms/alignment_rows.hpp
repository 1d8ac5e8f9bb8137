#pragma once

#include "mechanisms/mechanism.hpp"
#include "mechanisms/rows.hpp"

namespace attn::mechanisms {

/// The rows of weights of Alignment for one sequence, and their gradients. The hidden layer of a
/// row is the sum of a part for the place i, (A, I), a part for the row, (J, A), and a part from
/// the row before.
template <class T>
class AlignmentRows {
 public:
  /// For the inputs of an Alignment. Throws Error(numerical) if a part is beyond the range.
  AlignmentRows(const Tensors<const T>& inputs, int threads);

  Index rows() const { return states_.rows(); }
  Index places() const { return places_.cols(); }

  /// Whether rows depend on the row before; they are then computed one by one.
  bool look_back() const { return w_previous_.data != nullptr; }
  Index rows_at_once() const { return rows_at_once(places(), look_back()); }

  /// Sets the row before the next one; null, as at first, for the first row.
  void set_previous(const T* weights);

  /// The weights of rows from `first` on, as many as `weights` has.
  void weigh(Index first, MatrixView<T> weights);

  /// The reverse: from ∂L/∂f of these rows adds to all gradients, and writes the gradients of the
  /// row before (I).
  void differentiate(Index first, MatrixView<const T> energies, T* previous);

  /// After all rows: writes the gradients of all inputs that have data; the gradient of the source
  /// is added.
  void finish(const Tensors<T>& gradients) const;

  static Index rows_at_once(Index places, bool look_back);
  static std::int64_t bytes(const Sizes& sizes, bool gradients);

 private:
  template <class Use>
  void for_parts(const Use& use) const;
  void add_positions();
  MatrixView<const T> hidden(Index first, Index count);
  MatrixView<const T> windows(Index first, Index count) const;
  void differentiate_windows(T* previous);
  void finish_positions(MatrixView<T> dw_position) const;

  int threads_;
  MatrixView<const T> source_, target_, w_source_, w_target_, v_, w_position_, w_previous_;
  OwnedMatrix<T> places_;      // (A, I): a place is a column
  OwnedMatrix<T> states_;      // (J, A)
  OwnedMatrix<T> seen_;        // (A, I), with w_previous: places_ plus the part from the row before
  OwnedMatrix<T> padded_;      // the row before, with K zeros on either side
  OwnedMatrix<T> w_by_place_;  // w_previous, transposed
  // Gradients of the same shapes.
  OwnedMatrix<T> dplaces_, dstates_, dseen_, dpadded_;
  OwnedMatrix<T> dw_previous_;
  OwnedMatrix<double> dv_;
};

}  // namespace attn::mechanisms
