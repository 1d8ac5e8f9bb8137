#include "parallel/rank_share.hpp"

#include <algorithm>
#include <cstring>

#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

int RankShare::rank_of(Index item) const {
  const Index count = ranks_->count();
  if (!neighbouring_) return static_cast<int>(item % count);
  // The last rank r with ⌊r n/P⌋ ≤ item.
  return static_cast<int>(((item + 1) * count - 1) / items_);
}

RankShare::Items RankShare::items_of(Index rank, Index begin, Index end) const {
  const Index count = ranks_->count();
  if (neighbouring_) {
    const Index first = std::max(begin, first_neighbour(items_, rank, count));
    const Index last = std::min(end, first_neighbour(items_, rank + 1, count));
    return {first, std::max<Index>(0, last - first)};
  }
  const Index first = begin + (rank - begin % count + count) % count;
  return {first, std::max<Index>(0, (end - first + count - 1) / count), count};
}

RankShare::Items RankShare::own() const {
  if (divided()) return items_of(ranks_->own(), 0, items_);
  return {0, items_};
}

// Items of one rank after the other lie side by side in the exchanged memory.
void RankShare::exchange(const Results& results, Index begin, Index end) const {
  const Index count = ranks_->count();
  Index most = 0;  // items of a rank
  for (Index rank = 0; rank < count; ++rank) {
    most = std::max(most, items_of(rank, begin, end).count);
  }
  // From number `first` to `last` of a rank's items.
  const auto for_items = [&](Index first, Index last, Index rank, const Visit& visit) {
    const Items items = items_of(rank, begin, end);
    for (Index n = first; n < std::min(last, items.count); ++n) {
      results(items.at(n), visit);
    }
  };
  Buffer<std::byte> packed;
  PooledVector<std::int64_t> ends(static_cast<std::size_t>(count));
  Index first = 0;
  while (first < most) {
    // Items up to `last`, one for each rank at a time, until some rank's part is full.
    Index last = first;
    std::fill(ends.begin(), ends.end(), std::int64_t{0});
    do {
      for (Index rank = 0; rank < count; ++rank) {
        for_items(last, last + 1, rank, [&](std::span<std::byte> bytes) {
          ends[static_cast<std::size_t>(rank)] += static_cast<std::int64_t>(bytes.size());
        });
      }
      ++last;
    } while (last < most && *std::max_element(ends.begin(), ends.end()) < exchanged_bytes);
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

void RankShare::complete(const Results& results) const {
  if (divided()) exchange(results, 0, items_);
}

void RankShare::add_in_turn(Index item, const Memory& totals,
                            const std::function<void()>& add) const {
  const auto is_of_other = [&](Index neighbour) {
    return divided() && neighbour >= 0 && neighbour < items_ && rank_of(neighbour) != ranks_->own();
  };
  if (is_of_other(item - 1)) {
    totals([&](std::span<std::byte> bytes) { ranks_->receive(rank_of(item - 1), bytes); });
  }
  add();
  if (is_of_other(item + 1)) {
    totals([&](std::span<std::byte> bytes) { ranks_->send(rank_of(item + 1), bytes); });
  }
}

void RankShare::take_totals(const Memory& totals) const {
  if (!divided() || items_ == 0) return;
  exchange([&](Index, const Visit& visit) { totals(visit); }, items_ - 1, items_);
}

}  // namespace attn
