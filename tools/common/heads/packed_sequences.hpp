#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "score/packing.hpp"

namespace attn::tools {

/// Where the sequences of a bundle begin: cu_seqlens, or segment_ids, or one of these for queries
/// and one for keys. A bundle with datasets of both kinds says the same twice.
class PackedSequences {
 public:
  /// A dataset for both sides, or one for each.
  struct Names {
    const char* both;
    const char* queries;
    const char* keys;
  };
  static constexpr Names starts_names = {"cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"};
  static constexpr Names ids_names = {"segment_ids", "q_segment_ids", "kv_segment_ids"};

  /// Throws Error(input) that names a dataset whose type, shape or numbers do not fit, and
  /// Error(usage) for a dataset that is missing on one side, or for lengths, starts and offsets
  /// beside a packing.
  explicit PackedSequences(const io::InputBundle& bundle);

  /// Whether the bundle packs sequences.
  bool any() const { return starts_ || ids_; }

  /// The number of sequences of the problem that has most. Requires any(). Throws Error(input) if
  /// the numbers of segments of queries and keys have other leading axes, and as starts_of_ids.
  Index most_sequences() const;

  /// The packing of each problem. Requires any(). Throws Error(input) if the lengths do not fit,
  /// and as starts_of_ids.
  std::vector<std::shared_ptr<const Packing>> packings(const Shape& leading, Index queries,
                                                       Index keys, Causal causal) const;

 private:
  struct Side {
    std::string name;
    Shape shape;
    std::vector<Index> numbers;
  };
  struct Sides {
    Side queries, keys;
  };
  static std::optional<Sides> read(const io::InputBundle& bundle, const Names& names);
  void require_same(const PackedStarts& by_ids) const;

  std::optional<Sides> starts_, ids_;
};

/// All names of these datasets.
inline std::vector<std::string> packing_names() {
  std::vector<std::string> all;
  for (const auto& names : {PackedSequences::starts_names, PackedSequences::ids_names}) {
    all.insert(all.end(), {names.both, names.queries, names.keys});
  }
  return all;
}

}  // namespace attn::tools
