#include "score/band.hpp"

#include <algorithm>
#include <string>

#include "attnkit/error.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

Band::Band(Index rows, Index cols, Causal causal, std::optional<Index> window,
           std::optional<Index> key_length)
    : rows_(rows),
      keys_(key_length.value_or(cols)),
      cols_(cols),
      first_(first_position(causal, rows, cols)) {
  if (keys_ < 0 || keys_ > cols) {
    throw Error(Failure::input, "key_length is " + std::to_string(keys_) + ", expected 0 to " +
                                    std::to_string(cols));
  }
  if (window && *window < 1) {
    throw Error(Failure::input,
                "the window is " + std::to_string(*window) + ", expected at least 1");
  }
  // No two positions are further apart, and sums with it cannot overflow.
  const Index limit = rows + cols + 1;
  behind_ = std::min(window.value_or(limit), limit);
  ahead_ = causal == Causal::none ? behind_ : 1;
  whole_ = causal == Causal::none && behind_ == limit && keys_ == cols;
}

Index Band::begin(Index row) const {
  return std::clamp<Index>(row + first_ - behind_ + 1, 0, keys_);
}

Index Band::end(Index row) const { return std::clamp<Index>(row + first_ + ahead_, 0, keys_); }

bool Band::empty(const TileRange& range) const {
  if (range.rows == 0 || range.cols == 0 || range.col0 >= keys_) return true;
  // The first query that reaches past the left edge of the range; later ones begin no earlier.
  const Index row = std::max(range.row0, range.col0 - first_ - ahead_ + 1);
  return row >= range.row0 + range.rows ||
         begin(row) >= std::min(end(row), range.col0 + range.cols);
}

bool Band::full(const TileRange& range) const {
  if (range.rows == 0 || range.cols == 0) return true;
  return begin(range.row0 + range.rows - 1) <= range.col0 &&
         end(range.row0) >= range.col0 + range.cols;
}

Index Band::cols_in_use(const TileRange& range) const {
  if (range.rows == 0) return 0;
  return std::clamp<Index>(end(range.row0 + range.rows - 1) - range.col0, 0, range.cols);
}

AllowedCounts Band::allowed_counts() const {
  AllowedCounts allowed;
  allowed.keys_of_query.resize(static_cast<std::size_t>(rows_));
  // How many more queries see key j than key j − 1.
  PooledVector<Index> more(static_cast<std::size_t>(cols_) + 1, 0);
  for (Index i = 0; i < rows_; ++i) {
    allowed.keys_of_query[static_cast<std::size_t>(i)] = end(i) - begin(i);
    ++more[static_cast<std::size_t>(begin(i))];
    --more[static_cast<std::size_t>(end(i))];
  }
  allowed.queries_of_key.resize(static_cast<std::size_t>(cols_));
  Index queries = 0;
  for (std::size_t j = 0; j < allowed.queries_of_key.size(); ++j) {
    queries += more[j];
    allowed.queries_of_key[j] = queries;
  }
  return allowed;
}

}  // namespace attn
