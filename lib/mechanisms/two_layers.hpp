#pragma once

#include "kernel/product.hpp"
#include "mechanisms/mechanism.hpp"
#include "mechanisms/rows.hpp"

namespace attn::mechanisms {

/// A network of two layers for the rows of a matrix: h = ReLU(x W₁ᵀ + b₁), y = h W₂ᵀ + b₂, and
/// ReLU(y) where `ends_in_relu`. Biases without data are 0.
template <class T>
struct TwoLayers {
  MatrixView<const T> w1, b1, w2, b2;
  bool ends_in_relu = false;

  struct Kept {
    OwnedMatrix<T> hidden;
    OwnedMatrix<T> result;
  };

  /// Where gradients go; gradients without data are not computed.
  struct Gradients {
    MatrixView<T> w1, b1, w2, b2;
  };

  Kept forward(MatrixView<const T> x) const {
    Kept kept{{x.rows, w1.rows}, {x.rows, w2.rows}};
    layer(x, w1, b1, true, kept.hidden);
    layer(kept.hidden.read(), w2, b2, ends_in_relu, kept.result);
    return kept;
  }

  /// Adds ∂L/∂x to dx if it has data, and the gradients of the weights to `gradients`. Changes dy.
  void backward(MatrixView<const T> x, const Kept& kept, OwnedMatrix<T>& dy,
                const Gradients& gradients, MatrixView<T> dx) const {
    if (ends_in_relu) cut(kept.result, dy);
    add_gradients(kept.hidden.read(), dy, gradients.w2, gradients.b2);
    OwnedMatrix<T> dh(x.rows, w1.rows);
    kernel::multiply(dy.read(), w2, dh.view());
    cut(kept.hidden, dh);
    add_gradients(x, dh, gradients.w1, gradients.b1);
    if (dx.data != nullptr) kernel::multiply_add(dh.read(), w1, dx);
  }

 private:
  static void layer(MatrixView<const T> x, MatrixView<const T> w, MatrixView<const T> b, bool cuts,
                    OwnedMatrix<T>& y) {
    kernel::multiply_transposed(x, w, y.view());
    for (Index i = 0; i < y.rows(); ++i) {
      T* const row = y.view().row(i);
      for (Index c = 0; c < y.cols(); ++c) {
        if (b.data != nullptr) row[c] += b.data[c];
        if (cuts) row[c] = row[c] > 0 ? row[c] : T{0};
      }
    }
  }

  // d ← 0 where ReLU gave 0.
  static void cut(const OwnedMatrix<T>& y, OwnedMatrix<T>& d) {
    for (Index n = 0; n < d.size(); ++n) {
      if (!(y.data()[n] > 0)) d.data()[n] = 0;
    }
  }

  static void add_gradients(MatrixView<const T> x, const OwnedMatrix<T>& dy, MatrixView<T> dw,
                            MatrixView<T> db) {
    if (dw.data != nullptr) kernel::add_transposed_product(dy.read(), x, dw);
    if (db.data == nullptr) return;
    for (Index i = 0; i < dy.rows(); ++i) {
      for (Index c = 0; c < dy.cols(); ++c) db.data[c] += dy.read()(i, c);
    }
  }
};

}  // namespace attn::mechanisms
