#pragma once

#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// The number of keys that each query may attend to, and of queries that may attend to each key.
struct AllowedCounts {
  PooledVector<Index> keys_of_query;   ///< (Lq)
  PooledVector<Index> queries_of_key;  ///< (Lk)

  Index empty_queries() const;  ///< queries that may attend to no key
  Index empty_keys() const;     ///< keys that no query may attend to
  Index most_keys() const;      ///< max over queries
};

}  // namespace attn
