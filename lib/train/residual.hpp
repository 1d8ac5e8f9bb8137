#pragma once

#include <string>
#include <utility>

#include "train/layer_norm.hpp"

namespace attn::train {

enum class NormOrder {
  post,  ///< y = LN(x + f(x)), as in the documents
  pre,   ///< y = x + f(LN(x))
};

/// Wraps a sub-layer f by a residual connection, layer normalisation and dropout of f's result.
class Residual {
 public:
  /// `place` is the dropout's number; see Dropout.
  Residual(Parameters& parameters, const std::string& norm_name, Index width, NormOrder order,
           std::uint32_t place)
      : norm_(parameters, norm_name, width), order_(order), place_(place) {}

  template <class T>
  struct Kept {
    OwnedMatrix<T> inner;  ///< post: x + f(x), which the norm reads; pre: LN(x), which f reads
    LayerNorm::Kept<T> norm;
  };

  /// `f` maps a MatrixView<const T> to OwnedMatrix<T>. Its argument stays valid as long as x and
  /// `kept`.
  template <class T, class F>
  OwnedMatrix<T> forward(const Slot<T>& slot, MatrixView<const T> x, Kept<T>& kept,
                         const F& f) const {
    if (order_ == NormOrder::pre) {
      kept.inner = norm_.forward(slot, x, kept.norm);
      OwnedMatrix<T> y = f(std::as_const(kept.inner).view());
      slot.dropout.apply(y, place_);
      add_to(y, x);
      return y;
    }
    kept.inner = f(x);
    slot.dropout.apply(kept.inner, place_);
    add_to(kept.inner, x);
    return norm_.forward(slot, std::as_const(kept.inner).view(), kept.norm);
  }

  /// The input of f in a forward pass.
  template <class T>
  MatrixView<const T> input(MatrixView<const T> x, const Kept<T>& kept) const {
    return order_ == NormOrder::pre ? kept.inner.view() : x;
  }

  /// Returns ∂L/∂x. `f_backward(input of f, ∂L/∂f, sum)` adds the gradient of f's input to `sum`.
  template <class T, class F>
  OwnedMatrix<T> backward(const Slot<T>& slot, MatrixView<const T> x, const Kept<T>& kept,
                          const OwnedMatrix<T>& dy, const F& f_backward) const {
    if (order_ == NormOrder::pre) {
      OwnedMatrix<T> df = OwnedMatrix<T>::copy_of(dy);
      slot.dropout.apply(df, place_);
      OwnedMatrix<T> dnormal = OwnedMatrix<T>::zeros(dy.rows(), dy.cols());
      f_backward(kept.inner.view(), std::as_const(df).view(), dnormal.view());
      OwnedMatrix<T> dx = norm_.backward(slot, x, kept.norm, std::as_const(dnormal).view());
      add_to(dx, dy.view());
      return dx;
    }
    OwnedMatrix<T> dx = norm_.backward(slot, kept.inner.view(), kept.norm, dy.view());
    OwnedMatrix<T> df = OwnedMatrix<T>::copy_of(dx);
    slot.dropout.apply(df, place_);
    f_backward(x, std::as_const(df).view(), dx.view());
    return dx;
  }

  Index width() const { return norm_.width(); }

  /// The bytes with f, for `rows` rows.
  template <class T>
  PassBytes bytes(Index rows, const PassBytes& f) const {
    const PassBytes norm = norm_.bytes<T>(rows);
    const std::int64_t all = norm.forward;  // of the norm's input, and of its result
    return {all + norm.kept + f.kept, std::max(all, f.forward),
            2 * all + std::max(all, f.backward)};
  }

 private:
  LayerNorm norm_;
  NormOrder order_;
  std::uint32_t place_;
};

}  // namespace attn::train
