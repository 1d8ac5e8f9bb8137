#pragma once

#include <algorithm>
#include <vector>

#include "sanitized.hpp"
#include "tensor/view.hpp"

namespace attn::testing {

/// A matrix surrounded by known numbers: before it, between its rows and after it. Those after it
/// are left out if an address sanitizer is active, so that it detects reads past the end as well.
template <class T>
class Guarded {
 public:
  /// `before` elements precede the first one, and thereby set its alignment.
  Guarded(Index rows, Index cols, Index gap = 5, Index before = 3)
      : rows_(rows), cols_(cols), stride_(cols + gap), before_(before) {
    const Index behind = sanitized ? 0 : 40;
    const Index extent = rows > 0 && cols > 0 ? (rows - 1) * stride_ + cols : 0;
    values_.assign(static_cast<std::size_t>(before + extent + behind), guard);
  }

  MatrixView<T> view() { return {values_.data() + before_, rows_, cols_, stride_}; }
  MatrixView<const T> view() const { return {values_.data() + before_, rows_, cols_, stride_}; }
  T* data() { return values_.data() + before_; }
  const T* data() const { return values_.data() + before_; }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }

  template <class Make>
  void fill(const Make& make) {
    for (Index i = 0; i < rows_; ++i) std::generate_n(view().row(i), cols_, make);
  }

  /// Equal numbers inside and around.
  bool operator==(const Guarded& other) const { return values_ == other.values_; }

  /// Whether everything around the matrix is unchanged.
  bool intact() const {
    Index inside = 0;
    Index guards = 0;
    for (Index at = 0; at < static_cast<Index>(values_.size()); ++at) {
      const Index offset = at - before_;
      const bool in = offset >= 0 && offset / stride_ < rows_ && offset % stride_ < cols_;
      inside += in ? 1 : 0;
      guards += !in && values_[static_cast<std::size_t>(at)] == guard ? 1 : 0;
    }
    return inside == rows_ * cols_ && inside + guards == static_cast<Index>(values_.size());
  }

 private:
  static constexpr T guard = T{-12345};
  Index rows_;
  Index cols_;
  Index stride_;
  Index before_;
  std::vector<T> values_;
};

}  // namespace attn::testing
