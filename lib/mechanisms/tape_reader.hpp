#pragma once

#include <algorithm>

#include "kernel/product.hpp"
#include "mechanisms/tape.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::mechanisms {

/// Rows of `matrix` one step later, with zeros in front.
template <class T>
OwnedMatrix<T> shifted(MatrixView<const T> matrix) {
  OwnedMatrix<T> made = OwnedMatrix<T>::zeros(matrix.rows, matrix.cols);
  for (Index t = 1; t < matrix.rows; ++t) {
    std::copy_n(matrix.row(t - 1), matrix.cols, made.view().row(t));
  }
  return made;
}

/// Attention of all steps to one tape: queries u_t = W_x x_t + W_prev m_{t−1}, where m_{t−1} are
/// the first `state` numbers of the mean before.
template <class T>
class TapeReader {
 public:
  struct Weights {
    MatrixView<const T> project, of_input, of_mean, v;
  };
  struct Gradients {
    MatrixView<T> project, of_input, of_mean, v;
  };

  TapeReader(const Weights& weights, MatrixView<const T> x, Index places, Index memory)
      : weights_(weights),
        x_(x),
        tape_(weights.v, places, memory),
        queries_(x.rows, weights.v.cols),
        means_(x.rows, memory),
        scales_(static_cast<std::size_t>(x.rows)) {
    kernel::multiply_transposed(x, weights.of_input, queries_.view());
  }

  Index state() const { return weights_.project.cols; }
  const OwnedMatrix<T>& means() const { return means_; }
  OwnedMatrix<T>& means() { return means_; }

  /// Writes a place of the tape, whose memory begins with its state.
  void set(Index place, const T* memory) {
    OwnedMatrix<T> projection(1, weights_.v.cols);
    kernel::multiply_transposed({memory, 1, state()}, weights_.project, projection.view());
    tape_.set(place, projection.data(), memory);
  }

  /// Finds the mean of step t over the first n places, and the weights (n) unless `weights` is
  /// null.
  void read(Index t, Index n, T* weights, int threads) {
    T* const query = queries_.view().row(t);
    if (t > 0) {
      OwnedMatrix<T> more(1, queries_.cols());
      kernel::multiply_transposed({means_.view().row(t - 1), 1, state()}, weights_.of_mean,
                                  more.view());
      for (Index a = 0; a < queries_.cols(); ++a) query[a] += more.data()[a];
    }
    scales_[static_cast<std::size_t>(t)] =
        tape_.attend(query, n, weights, means_.view().row(t), threads);
  }

  /// Takes the gradient of the mean of step t, and adds the part from the next step's query to it.
  /// Steps go down.
  void read_back(Index t, Index n, T* dmean, int threads) {
    if (dqueries_.data() == nullptr) dqueries_ = OwnedMatrix<T>::zeros(x_.rows, queries_.cols());
    if (t + 1 < x_.rows) {
      kernel::multiply_add(dqueries_.read().row_range(t + 1, 1), weights_.of_mean,
                           {dmean, 1, state()});
    }
    tape_.differentiate(queries_.view().row(t), n, scales_[static_cast<std::size_t>(t)], dmean,
                        dqueries_.view().row(t), threads);
  }

  /// The gradient of a place: of its memory, and of its projection, once no step reads it any more.
  void add_place_gradient(Index place, T* dmemory) {
    if (!tape_.is_differentiated()) return;
    OwnedMatrix<T> projection(1, weights_.v.cols);
    tape_.projection_gradient(place, projection.data());
    tape_.add_memory_gradient(place, dmemory);
    kernel::multiply_add(projection.read(), weights_.project, {dmemory, 1, state()});
  }

  /// After all steps: adds the gradients of the weights, and the part of dx.
  void finish(const Gradients& gradients, Index places, MatrixView<T> dx) {
    if (dqueries_.data() == nullptr) return;
    if (gradients.project.data != nullptr) {
      OwnedMatrix<T> projections(places, weights_.v.cols);
      for (Index p = 0; p < places; ++p) tape_.projection_gradient(p, projections.view().row(p));
      const MatrixView<const T> memories = tape_.memories();
      kernel::add_transposed_product(projections.read(),
                                     {memories.data, places, state(), memories.row_stride},
                                     gradients.project);
    }
    if (gradients.of_input.data != nullptr) {
      kernel::add_transposed_product(dqueries_.read(), x_, gradients.of_input);
    }
    if (gradients.of_mean.data != nullptr) {
      const OwnedMatrix<T> before =
          shifted<T>({means_.data(), means_.rows(), state(), means_.cols()});
      kernel::add_transposed_product(dqueries_.read(), before.read(), gradients.of_mean);
    }
    if (gradients.v.data != nullptr) {
      for (Index a = 0; a < weights_.v.cols; ++a) {
        gradients.v.data[a] += static_cast<T>(tape_.v_gradient()[a]);
      }
    }
    if (dx.data != nullptr) kernel::multiply_add(dqueries_.read(), weights_.of_input, dx);
  }

 private:
  Weights weights_;
  MatrixView<const T> x_;
  Tape<T> tape_;
  OwnedMatrix<T> queries_, means_, dqueries_;
  PooledVector<SoftmaxScale> scales_;  // of each step
};

}  // namespace attn::mechanisms
