#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attnkit/causal.hpp"

namespace attn {

/// Sequences that lie one after the other in one problem. A query may attend to keys of its own
/// sequence only. A sequence may have no queries, or no keys.
class Packing {
 public:
  struct Sequence {
    Index query = 0;  ///< its first query
    Index key = 0;    ///< its first key
    /// Query i stands at i + offset among the keys of the problem: usual_offset of the sequence.
    Index offset = 0;
  };

  /// `query_starts` and `key_starts` (S + 1) begin with 0, never fall, and end with the numbers of
  /// queries and keys that are not padding. They have equal lengths, at least 1.
  Packing(std::span<const Index> query_starts, std::span<const Index> key_starts, Causal causal);

  Index sequences() const { return static_cast<Index>(starts_.size()) - 1; }
  Index queries() const { return starts_.back().query; }
  Index keys() const { return starts_.back().key; }

  /// Sequence s, or for s = sequences() the ends of the last one.
  const Sequence& operator[](Index s) const { return starts_[static_cast<std::size_t>(s)]; }

  /// The sequence of a query, 0 <= query < queries().
  Index sequence_of(Index query) const;

  /// The position of a query or key, counted from the first key of its sequence.
  Index position_of_query(Index query) const {
    const Sequence& own = (*this)[sequence_of(query)];
    return query + own.offset - own.key;
  }
  Index position_of_key(Index key) const;

  Index queries_of(Index s) const { return (*this)[s + 1].query - (*this)[s].query; }
  Index keys_of(Index s) const { return (*this)[s + 1].key - (*this)[s].key; }

  /// The first sequence with another number of keys than of queries, or sequences().
  Index first_unequal() const;

  /// The offset of all sequences with queries, if they have the same.
  std::optional<Index> common_offset() const;

 private:
  std::vector<Sequence> starts_;  // and the end
};

/// Throws Error(input) that calls them `name` unless the starts begin with 0, never fall, and end
/// with at most `length`, the number of `side`.
void require_starts(std::span<const Index> starts, Index length, const std::string& name,
                    const char* side);

/// The starts of the sequences of queries and keys whose numbers are given: every run of equal
/// numbers is a sequence, and a query attends to the run of keys with its number. `name_q` and
/// `name_k` stand for the numbers in messages. Throws Error(input) if two runs have the same
/// number, or if the sequences of the keys are in another order than those of the queries.
struct PackedStarts {
  std::vector<Index> queries, keys;
  bool operator==(const PackedStarts&) const = default;
};
PackedStarts starts_of_ids(std::span<const Index> queries, std::span<const Index> keys,
                           const std::string& name_q, const std::string& name_k);

}  // namespace attn
