#include "common/heads/packed_sequences.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "tensor/batch.hpp"

namespace attn::tools {
namespace {

void require_alone(const io::InputBundle& bundle, const std::string& packing) {
  for (const char* name :
       {"query_length", "key_length", "query_start", "key_start", "query_offset"}) {
    if (!bundle.has(name)) continue;
    throw Error(Failure::usage,
                fmt::format("{} has no effect on packed sequences, which {} places",
                            bundle.dataset(name).address(), packing),
                "-i takes single datasets, and leaves the others out");
  }
}

PackedStarts without_empty(const PackedStarts& starts) {
  PackedStarts found;
  for (std::size_t n = 0; n < starts.queries.size(); ++n) {
    const bool is_last = n + 1 == starts.queries.size();
    if (!is_last && starts.queries[n] == starts.queries[n + 1] &&
        starts.keys[n] == starts.keys[n + 1]) {
      continue;
    }
    found.queries.push_back(starts.queries[n]);
    found.keys.push_back(starts.keys[n]);
  }
  return found;
}

}  // namespace

std::optional<PackedSequences::Sides> PackedSequences::read(const io::InputBundle& bundle,
                                                            const Names& names) {
  const auto side = [&](const char* name) {
    const ArraySource dataset = bundle.dataset(name);
    if (!is_integral(dataset.dtype()) || dataset.dtype() == DType::boolean) {
      throw Error(Failure::input, fmt::format("{} has type {}, expected an integer type",
                                              dataset.address(), dataset.type()));
    }
    Side read{dataset.address(), dataset.shape(), {}};
    read.numbers.resize(static_cast<std::size_t>(element_count(read.shape)));
    dataset.read(Shape(read.shape.size(), 0), read.shape, read.numbers.data());
    return read;
  };
  const bool of_queries = bundle.has(names.queries);
  if (of_queries != bundle.has(names.keys)) {
    throw Error(Failure::usage,
                fmt::format("{} is there without {}",
                            bundle.dataset(of_queries ? names.queries : names.keys).address(),
                            of_queries ? names.keys : names.queries),
                bundle.has("cu_seqlens_kv")
                    ? "--map cu_seqlens_k=cu_seqlens_kv"
                    : fmt::format("{} serves queries and keys", names.both));
  }
  if (of_queries && bundle.has(names.both)) {
    throw Error(Failure::usage, fmt::format("{} and {} both place the queries, expected one",
                                            bundle.dataset(names.both).address(),
                                            bundle.dataset(names.queries).address()));
  }
  if (of_queries) return Sides{side(names.queries), side(names.keys)};
  if (!bundle.has(names.both)) return std::nullopt;
  Side both = side(names.both);
  return Sides{both, std::move(both)};
}

PackedSequences::PackedSequences(const io::InputBundle& bundle)
    : starts_(read(bundle, starts_names)), ids_(read(bundle, ids_names)) {
  if (!any()) return;
  require_alone(bundle, (starts_ ? starts_ : ids_)->queries.name);
  if (!starts_) return;
  const auto& [queries, keys] = *starts_;
  for (const Side* side : {&queries, &keys}) {
    if (side->shape.size() == 1 && side->shape.front() > 0) continue;
    throw Error(Failure::input, fmt::format("{} has shape {}, expected (sequences + 1)", side->name,
                                            to_string(side->shape)));
  }
  if (queries.numbers.size() == keys.numbers.size()) return;
  throw Error(Failure::input,
              fmt::format("{} has {} numbers and {} has {}, expected as many", queries.name,
                          queries.numbers.size(), keys.name, keys.numbers.size()));
}

void PackedSequences::require_same(const PackedStarts& by_ids) const {
  if (!starts_) return;
  const PackedStarts by_starts{starts_->queries.numbers, starts_->keys.numbers};
  if (without_empty(by_starts) == without_empty(by_ids)) return;
  throw Error(Failure::input, fmt::format("{} and {} say different sequences",
                                          starts_->queries.name, ids_->queries.name));
}

Index PackedSequences::most_sequences() const {
  if (!ids_) return std::ssize(starts_->queries.numbers) - 1;
  const auto& [queries, keys] = *ids_;
  const Side& larger = queries.shape.size() < keys.shape.size() ? keys : queries;
  if (queries.shape.empty() || keys.shape.empty()) return 1;
  Index most = 0;
  for (const auto& packing : packings(Shape(larger.shape.begin(), larger.shape.end() - 1),
                                      queries.shape.back(), keys.shape.back(), Causal::none)) {
    most = std::max(most, packing->sequences());
  }
  return most;
}

std::vector<std::shared_ptr<const Packing>> PackedSequences::packings(const Shape& leading,
                                                                      Index queries, Index keys,
                                                                      Causal causal) const {
  const auto refuse = [](const Side& side, const std::string& expected) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected {}", side.name,
                                            to_string(side.shape), expected));
  };
  if (starts_) {
    require_starts(starts_->queries.numbers, queries, starts_->queries.name, "queries");
    require_starts(starts_->keys.numbers, keys, starts_->keys.name, "keys");
  }
  const auto count = static_cast<std::size_t>(element_count(leading));
  if (!ids_) {
    const auto packing =
        std::make_shared<const Packing>(starts_->queries.numbers, starts_->keys.numbers, causal);
    return std::vector<std::shared_ptr<const Packing>>(count, packing);
  }
  // The leading axes of segment ids are the first of the problems', or 1.
  const auto blocks_of = [&](const Side& side, Index length, const char* of) {
    if (side.shape.empty() || side.shape.back() != length || side.shape.size() > leading.size() + 1)
      refuse(side, fmt::format("a last axis of {} {}", length, of));
    Shape aligned(side.shape.begin(), side.shape.end() - 1);
    aligned.resize(leading.size(), 1);
    return LeadingMap(leading, aligned, false, side.name);
  };
  const LeadingMap of_queries = blocks_of(ids_->queries, queries, "queries");
  const LeadingMap of_keys = blocks_of(ids_->keys, keys, "keys");
  const auto block = [](const Side& side, Index number) {
    const auto length = static_cast<std::size_t>(side.shape.back());
    return std::span(side.numbers).subspan(static_cast<std::size_t>(number) * length, length);
  };
  // Problems that differ only in their head share one.
  std::map<std::pair<Index, Index>, std::shared_ptr<const Packing>> made;
  std::vector<std::shared_ptr<const Packing>> packings;
  for (Index problem = 0; problem < static_cast<Index>(count); ++problem) {
    const std::pair<Index, Index> at{of_queries(problem), of_keys(problem)};
    std::shared_ptr<const Packing>& packing = made[at];
    if (!packing) {
      const PackedStarts found =
          starts_of_ids(block(ids_->queries, at.first), block(ids_->keys, at.second),
                        ids_->queries.name, ids_->keys.name);
      require_same(found);
      packing = std::make_shared<const Packing>(found.queries, found.keys, causal);
    }
    packings.push_back(packing);
  }
  return packings;
}

}  // namespace attn::tools
