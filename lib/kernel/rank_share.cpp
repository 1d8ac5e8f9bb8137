#include "kernel/rank_share.hpp"

#include <algorithm>
#include <cstring>

#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::kernel {
namespace {

// A rank's part of one exchange; longer results take several.
constexpr std::int64_t round_bytes = std::int64_t{4} << 20;

}  // namespace

Index RankShare::own_count() const {
  if (loop_) return static_cast<Index>(loop_->left().size());
  if (!divided()) return items_;
  return (items_ - ranks_->own() + ranks_->count() - 1) / ranks_->count();
}

// Items of one rank after the other lie side by side in the exchanged memory.
void RankShare::complete(const Results& results) const {
  if (loop_) return loop_->results(results);
  if (!divided()) return;
  const Index count = ranks_->count();
  const auto for_items = [&](Index first, Index last, Index rank, const Visit& visit) {
    for (Index item = first + rank; item < last; item += count) results(item, visit);
  };
  Buffer<std::byte> packed;
  PooledVector<std::int64_t> ends(static_cast<std::size_t>(count));
  Index first = 0;
  while (first < items_) {
    // Items up to `last`, one for each rank at a time, until some rank's part is full.
    Index last = first;
    std::fill(ends.begin(), ends.end(), std::int64_t{0});
    do {
      const Index next = std::min(last + count, items_);
      for (Index item = last; item < next; ++item) {
        results(item, [&](std::span<std::byte> bytes) {
          ends[static_cast<std::size_t>(item - last)] += static_cast<std::int64_t>(bytes.size());
        });
      }
      last = next;
    } while (last < items_ && *std::max_element(ends.begin(), ends.end()) < round_bytes);
    for (std::size_t rank = 1; rank < ends.size(); ++rank) ends[rank] += ends[rank - 1];
    packed.reserve(ends.back());
    const auto at_rank = [&](Index rank) {
      return packed.data() + (rank == 0 ? 0 : ends[static_cast<std::size_t>(rank - 1)]);
    };
    std::byte* at = at_rank(ranks_->own());
    for_items(first, last, ranks_->own(), [&](std::span<std::byte> bytes) {
      std::memcpy(at, bytes.data(), bytes.size());
      at += bytes.size();
    });
    ranks_->gather({packed.data(), static_cast<std::size_t>(ends.back())}, ends);
    for (Index rank = 0; rank < count; ++rank) {
      if (rank == ranks_->own()) continue;
      at = at_rank(rank);
      for_items(first, last, rank, [&](std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), at, bytes.size());
        at += bytes.size();
      });
    }
    first = last;
  }
}

void RankShare::add_in_turn(Index item, const Memory& totals,
                            const std::function<void()>& add) const {
  if (loop_) {
    loop_->begin_totals(item, totals);
    add();
    return loop_->done(item);
  }
  const auto rank_of = [&](Index one) { return static_cast<int>(one % ranks_->count()); };
  if (divided() && item > 0) {
    totals([&](std::span<std::byte> bytes) { ranks_->receive(rank_of(item - 1), bytes); });
  }
  add();
  if (divided() && item + 1 < items_) {
    totals([&](std::span<std::byte> bytes) { ranks_->send(rank_of(item + 1), bytes); });
  }
}

void RankShare::take_totals(const Memory& totals) const {
  if (loop_) return loop_->totals(totals);
  complete([&](Index item, const Visit& visit) {
    if (item == items_ - 1) totals(visit);
  });
}

}  // namespace attn::kernel
