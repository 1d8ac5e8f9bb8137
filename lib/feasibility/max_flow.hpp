#pragma once

#include <cstdint>
#include <vector>

#include "feasibility/allowed_pairs.hpp"

namespace attn {

/// What is moved over one pair; amount > 0.
struct Shipment {
  Index row;
  Index col;
  std::int64_t amount;
};

struct Flow {
  std::vector<Shipment> shipments;     ///< no pair twice
  std::vector<std::int64_t> row_left;  ///< (m) of the supply
  std::vector<std::int64_t> col_left;  ///< (n) of the room
};

/// The most that rows with `supply` (m) can move over the allowed pairs to columns with `room` (n),
/// whole numbers >= 0 whose sums fit. Exact. Along runs that do not move back each column takes
/// from the rows that end first, in O(m + n) (Glover 1967); over bits it is Dinic's method, whose
/// phases look at each word of bits once. The shipments, at most m + n along runs, are usually not
/// many more over bits.
Flow maximum_flow(const AllowedPairs& pairs, std::vector<std::int64_t> supply,
                  std::vector<std::int64_t> room);

}  // namespace attn
