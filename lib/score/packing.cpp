#include "score/packing.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "attnkit/error.hpp"

namespace attn {
namespace {

struct Run {
  Index id = 0;
  Index first = 0;
};

std::vector<Run> runs_of(std::span<const Index> ids) {
  std::vector<Run> runs;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (n == 0 || ids[n] != ids[n - 1]) runs.push_back({ids[n], static_cast<Index>(n)});
  }
  return runs;
}

// The place of each number among the runs.
std::unordered_map<Index, std::size_t> places_of(const std::vector<Run>& runs,
                                                 const std::string& name) {
  std::unordered_map<Index, std::size_t> places;
  for (std::size_t n = 0; n < runs.size(); ++n) {
    const auto [before, is_new] = places.emplace(runs[n].id, n);
    if (is_new) continue;
    throw Error(Failure::input,
                name + " has " + std::to_string(runs[n].id) + " at " +
                    std::to_string(runs[before->second].first) + " and again at " +
                    std::to_string(runs[n].first) +
                    " after other numbers, expected each sequence in one piece",
                "a dataset mask can say which pairs are allowed");
  }
  return places;
}

}  // namespace

Packing::Packing(std::span<const Index> query_starts, std::span<const Index> key_starts,
                 Causal causal) {
  for (std::size_t s = 0; s < query_starts.size(); ++s) {
    Sequence sequence{query_starts[s], key_starts[s], 0};
    if (s + 1 < query_starts.size()) {
      sequence.offset = sequence.key - sequence.query +
                        usual_offset(causal, query_starts[s + 1] - sequence.query,
                                     key_starts[s + 1] - sequence.key);
    }
    starts_.push_back(sequence);
  }
}

Index Packing::sequence_of(Index query) const {
  const auto next =
      std::upper_bound(starts_.begin(), starts_.end(), query,
                       [](Index value, const Sequence& start) { return value < start.query; });
  return next - starts_.begin() - 1;
}

Index Packing::position_of_key(Index key) const {
  const auto next =
      std::upper_bound(starts_.begin(), starts_.end(), key,
                       [](Index value, const Sequence& start) { return value < start.key; });
  return key - std::prev(next)->key;
}

Index Packing::first_unequal() const {
  Index s = 0;
  while (s < sequences() && queries_of(s) == keys_of(s)) ++s;
  return s;
}

std::optional<Index> Packing::common_offset() const {
  std::optional<Index> common;
  for (Index s = 0; s < sequences(); ++s) {
    if (queries_of(s) == 0) continue;
    if (common && *common != (*this)[s].offset) return std::nullopt;
    common = (*this)[s].offset;
  }
  return common;
}

void require_starts(std::span<const Index> starts, Index length, const std::string& name,
                    const char* side) {
  const auto refuse = [&](std::size_t at, const std::string& expected) {
    throw Error(Failure::input, name + " is " + std::to_string(starts[at]) + " at [" +
                                    std::to_string(at) + "], expected " + expected);
  };
  for (std::size_t n = 0; n < starts.size(); ++n) {
    if (n == 0 && starts[n] != 0) refuse(n, "0");
    if (n > 0 && starts[n] < starts[n - 1]) {
      refuse(n, "at least " + std::to_string(starts[n - 1]));
    }
  }
  if (starts.back() <= length) return;
  refuse(starts.size() - 1,
         std::string("at most the number of ") + side + ", " + std::to_string(length));
}

PackedStarts starts_of_ids(std::span<const Index> queries, std::span<const Index> keys,
                           const std::string& name_q, const std::string& name_k) {
  const std::vector<Run> of_queries = runs_of(queries);
  const std::vector<Run> of_keys = runs_of(keys);
  const auto among_queries = places_of(of_queries, name_q);
  const auto among_keys = places_of(of_keys, name_k);
  const auto begin = [](const std::vector<Run>& runs, std::size_t n, std::size_t end) {
    return n < runs.size() ? runs[n].first : static_cast<Index>(end);
  };
  PackedStarts starts;
  std::size_t q = 0;
  std::size_t k = 0;
  while (q < of_queries.size() || k < of_keys.size()) {
    starts.queries.push_back(begin(of_queries, q, queries.size()));
    starts.keys.push_back(begin(of_keys, k, keys.size()));
    // Runs of one side only are sequences without the other side.
    const bool keys_alone = k < of_keys.size() && !among_queries.contains(of_keys[k].id);
    const bool queries_alone = q < of_queries.size() && !among_keys.contains(of_queries[q].id);
    if (keys_alone || queries_alone) {
      (keys_alone ? k : q) += 1;
      continue;
    }
    if (of_queries[q].id != of_keys[k].id) {
      throw Error(Failure::input,
                  name_q + " has " + std::to_string(of_queries[q].id) + " where " + name_k +
                      " has " + std::to_string(of_keys[k].id) +
                      ", expected the sequences of queries and keys in the same order",
                  "a dataset mask can say which pairs are allowed");
    }
    ++q;
    ++k;
  }
  starts.queries.push_back(static_cast<Index>(queries.size()));
  starts.keys.push_back(static_cast<Index>(keys.size()));
  return starts;
}

}  // namespace attn
