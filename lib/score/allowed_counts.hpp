#pragma once

#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// The number of keys that each query may attend to, and of queries that may attend to each key.
struct AllowedCounts {
  std::vector<Index> keys_of_query;   ///< (Lq)
  std::vector<Index> queries_of_key;  ///< (Lk)

  Index empty_queries() const;  ///< queries that may attend to no key
  Index empty_keys() const;     ///< keys that no query may attend to
  Index most_keys() const;      ///< max over queries
};

}  // namespace attn
