#pragma once

#include <cstdint>
#include <span>

#include "pass/pass.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// A pair that carries mass, seen from one of its lines.
struct Link {
  double weight = 0;  ///< 0: no pair
  Index other = -1;   ///< the line of the other kind
};

/// For every row and column of a plan, the heaviest pair that leads to a line of another part, the
/// first of equal pairs: one round of Borůvka's algorithm for spanning trees. Memory: `bytes`.
template <class T>
class HeaviestLinks final : public Observer<T> {
 public:
  /// The part of each row (Lq) and column (Lk); both must outlive it.
  HeaviestLinks(std::span<const Index> row_part, std::span<const Index> col_part)
      : row_part_(row_part), col_part_(col_part) {}

  void start(const Partition& partition) override;
  void observe(const WeightTile<T>& tile, Index slot) override;
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override;
  void finish() override;

  /// (Lq), (Lk); valid after the pass.
  const PooledVector<Link>& rows() const { return rows_; }
  const PooledVector<Link>& cols() const { return cols_; }

  static std::int64_t bytes(const Partition& partition);

 private:
  std::span<const Index> row_part_;
  std::span<const Index> col_part_;
  PooledVector<Link> rows_;
  PooledVector<Link> cols_;
  PooledVector<PooledVector<Link>> cols_of_slot_;
};

}  // namespace attn
