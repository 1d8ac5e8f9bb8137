#include "score/band.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "attnkit/error.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

Band::Band(Index rows, Index cols, const BandRule& rule)
    : rows_(rows), cols_(cols), first_(rule.offset) {
  constexpr Index most_offset = Index{1} << 50;
  if (first_ < -most_offset || first_ > most_offset) {
    throw Error(Failure::input, "the query offset is " + std::to_string(first_) +
                                    ", expected at most 2^50 in magnitude");
  }
  // No position and key are further apart, and sums with it cannot overflow.
  const Index queries = rule.packing == nullptr ? rows : rule.packing->queries();
  const Index limit = std::abs(first_) + queries + cols + 1;
  const auto reach = [&](const std::optional<Index>& side) {
    if (side && *side < 0) {
      throw Error(Failure::input, "the window reaches " + std::to_string(*side) +
                                      " keys to one side, expected at least 0");
    }
    return side && *side < limit ? *side + 1 : limit;
  };
  behind_ = reach(rule.window.left);
  ahead_ = reach(rule.window.right);
  whole_ = !rule.causal && rule.window.is_open() && rule.packing == nullptr;
  if (rule.causal) ahead_ = 1;
  if (rule.packing == nullptr || rows == 0) return;
  const Packing& packing = *rule.packing;
  runs_.reserve(static_cast<std::size_t>(rows));
  Index s = packing.sequence_of(rule.first_query);
  for (Index query = rule.first_query; query < rule.first_query + rows; ++query) {
    while (query >= packing[s + 1].query) ++s;
    const Index position = query + packing[s].offset;
    const auto own = [&](Index key) { return std::clamp(key, packing[s].key, packing[s + 1].key); };
    const Run last = runs_.empty() ? Run() : runs_.back();
    Run run{own(position - behind_ + 1), own(position + ahead_),
            last.seeing_before + (last.begin < last.end ? 1 : 0)};
    if (run.begin == run.end) run.begin = run.end = last.end;
    runs_.push_back(run);
  }
  const Run& last = runs_.back();
  runs_.push_back({cols, cols, last.seeing_before + (last.begin < last.end ? 1 : 0)});
}

Index Band::begin(Index row) const {
  if (!runs_.empty()) return runs_[static_cast<std::size_t>(row)].begin;
  return std::clamp<Index>(row + first_ - behind_ + 1, 0, cols_);
}

Index Band::end(Index row) const {
  if (!runs_.empty()) return runs_[static_cast<std::size_t>(row)].end;
  return std::clamp<Index>(row + first_ + ahead_, 0, cols_);
}

bool Band::empty_of_runs(const TileRange& range) const {
  const auto begin = runs_.begin() + range.row0;
  const auto end = begin + range.rows;
  // The queries whose runs end beyond the first column, and begin before the end of the last one.
  const auto first =
      std::partition_point(begin, end, [&](const Run& run) { return run.end <= range.col0; });
  const auto last = std::partition_point(
      first, end, [&](const Run& run) { return run.begin < range.col0 + range.cols; });
  return first->seeing_before == last->seeing_before;
}

bool Band::empty(const TileRange& range) const {
  if (range.rows == 0 || range.cols == 0 || range.col0 >= cols_) return true;
  if (!runs_.empty()) return empty_of_runs(range);
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
