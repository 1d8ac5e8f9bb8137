#pragma once

#include <cstdint>

#include "feasibility/allowed_pairs.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The amount moved over one pair; amount > 0.
struct Shipment {
  Index row;
  Index col;
  std::int64_t amount;
};

struct Flow {
  PooledVector<Shipment> shipments;     ///< no pair twice
  PooledVector<std::int64_t> row_left;  ///< (m) supply that was not sent
  PooledVector<std::int64_t> col_left;  ///< (n) room that was not filled
};

/// The maximum flow from rows with `supply` (m) over the allowed pairs to columns with `room` (n),
/// whole numbers >= 0 whose sums fit their type. Exact. Over runs that do not move back, each
/// column takes from the rows that end first, in O(m + n) (Glover 1967). Over bits, Dinic's method,
/// whose phases look at each word of bits once. Runs yield at most m + n shipments, bits usually
/// few more.
Flow maximum_flow(const AllowedPairs& pairs, PooledVector<std::int64_t> supply,
                  PooledVector<std::int64_t> room);

}  // namespace attn
