#include "score/allowed_counts.hpp"

#include <algorithm>

namespace attn {

Index AllowedCounts::empty_queries() const {
  return std::count(keys_of_query.begin(), keys_of_query.end(), 0);
}

Index AllowedCounts::empty_keys() const {
  return std::count(queries_of_key.begin(), queries_of_key.end(), 0);
}

Index AllowedCounts::most_keys() const {
  return keys_of_query.empty() ? 0 : *std::max_element(keys_of_query.begin(), keys_of_query.end());
}

}  // namespace attn
