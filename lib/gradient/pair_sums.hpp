#pragma once

#include <algorithm>

#include "gradient/gradient_sink.hpp"
#include "kernel/packed.hpp"

namespace attn {

/// by_query_i = Σ_j x_ij k_j (Lq, dk) and by_key_j = Σ_i x_ij q_i (Lk, dq) from tiles of x, which
/// come as in a GradientSink; two products per tile. Both results are contiguous, in the caller's
/// memory; a result without data is not computed.
template <class T>
class PairSums {
 public:
  PairSums(MatrixView<const T> q, MatrixView<const T> k, MatrixView<T> by_query,
           MatrixView<T> by_key)
      : q_(q), k_(k), by_query_(by_query), by_key_(by_key) {}

  void start(Index lanes) {
    if (by_query_.data != nullptr) keys_ = kernel::Packed<T>::of(k_);
    if (by_key_.data != nullptr) queries_ = kernel::Packed<T>::of(q_);
    lanes_ = LaneSums<T>(by_query_.data == nullptr ? 0 : elements(by_query_), lanes);
    for (const MatrixView<T>& sum : {by_query_, by_key_}) {
      if (sum.data != nullptr) std::fill_n(sum.data, elements(sum), T{0});
    }
  }

  void add(const TileRange& range, MatrixView<const T> x, Index lane) {
    if (by_query_.data != nullptr) {
      const MatrixView<T> sums(lanes_.lane(lane), by_query_.rows, by_query_.cols);
      kernel::multiply_add_packed(x, keys_, range.col0, sums.row_range(range.row0, range.rows));
    }
    if (by_key_.data != nullptr) {
      kernel::multiply_add_transposed_packed(x, queries_, range.row0,
                                             by_key_.row_range(range.col0, range.cols));
    }
  }

  void merge(Index lane, SumPart part) { lanes_.merge(lane, by_query_.data, part); }

  void visit_totals(const RankShare::Visit& visit) const {
    if (by_query_.data == nullptr) return;
    visit(std::as_writable_bytes(
        std::span(by_query_.data, static_cast<std::size_t>(elements(by_query_)))));
  }

  void share(const SlotShare& share) const {
    if (by_key_.data != nullptr) share.complete_lines(by_key_);
  }

 private:
  static Index elements(const MatrixView<T>& sum) { return sum.rows * sum.cols; }

  MatrixView<const T> q_;
  MatrixView<const T> k_;
  MatrixView<T> by_query_;
  MatrixView<T> by_key_;
  kernel::Packed<T> keys_;  // packed once, like the queries
  kernel::Packed<T> queries_;
  LaneSums<T> lanes_;
};

/// A sink that makes its gradients in `finish` from PairSums of the tiles.
template <class T>
class PairSink : public GradientSink<T> {
 public:
  void start(Index lanes) final { sums().start(lanes); }
  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) final {
    sums().add(range, gradient, lane);
  }
  void merge(Index lane, SumPart part) final { sums().merge(lane, part); }
  bool can_share() const final { return true; }
  void visit_totals(const RankShare::Visit& visit) final { sums().visit_totals(visit); }
  void share(const SlotShare& share) final { sums().share(share); }

 private:
  virtual PairSums<T>& sums() = 0;
};

}  // namespace attn
