#include "kernel/rank_share.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernel/stop_flag.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::kernel {
namespace {

// A round is to take so long: ranks wait for the slowest at its end, and write a record only there.
constexpr double round_seconds = 1;
constexpr double largest_growth = 8;  // from one round to the next

}  // namespace

RankShare::RankShare(Index items, Ranks* ranks, LoopRecord* record, Ranks::Rows cut)
    : items_(items), ranks_(ranks), neighbouring_(cut == Ranks::Rows::neighbouring) {
  if (record == nullptr) return;
  loop_ = std::make_shared<LoopRecord::Loop>(*record, items);
  neighbouring_ = neighbouring_ && !loop_->keeps();
  if (!among_ranks()) return;
  rounds_ = std::make_shared<Rounds>();
  const Index count = ranks_->count();
  rounds_->last =
      neighbouring_ ? (items + count - 1) / count : static_cast<Index>(loop_->left().size());
}

Index RankShare::last_place() const {
  if (rounds_) return rounds_->last;
  return loop_ ? static_cast<Index>(loop_->left().size()) : items_;
}

Index RankShare::place_of(Index item) const {
  if (!loop_) return item;
  const std::vector<Index>& left = loop_->left();
  return std::lower_bound(left.begin(), left.end(), item) - left.begin();
}

int RankShare::rank_of(Index place) const {
  const Index count = ranks_->count();
  if (!neighbouring_) return static_cast<int>(place % count);
  // The last rank r with ⌊r n/P⌋ ≤ place.
  return static_cast<int>(((place + 1) * count - 1) / items_);
}

RankShare::Places RankShare::places_of(Index rank, Index begin, Index end) const {
  const Index count = ranks_->count();
  if (by_own_number()) {
    const Index first = first_neighbour(items_, rank, count);
    const Index own = first_neighbour(items_, rank + 1, count) - first;
    return {first + begin, std::max<Index>(0, std::min(end, own) - begin)};
  }
  if (neighbouring_) {
    const Index first = std::max(begin, first_neighbour(items_, rank, count));
    const Index last = std::min(end, first_neighbour(items_, rank + 1, count));
    return {first, std::max<Index>(0, last - first)};
  }
  const Index first = begin + (rank - begin % count + count) % count;
  return {first, std::max<Index>(0, (end - first + count - 1) / count), count};
}

RankShare::Places RankShare::own_places() const {
  if (among_ranks()) return places_of(ranks_->own(), first_place(), last_place());
  return {first_place(), last_place() - first_place()};
}

Index RankShare::own_count() const { return own_places().count; }

Index RankShare::own_item(Index n) const { return item_at(own_places().at(n)); }

void RankShare::done(Index item) const {
  if (!loop_) return;
  if (!rounds_) return loop_->done(item);
  const Places own = own_places();
  const std::lock_guard<std::mutex> lock(rounds_->mutex);
  rounds_->done[static_cast<std::size_t>((place_of(item) - own.first) / own.step)] = 1;
}

void RankShare::run_in_rounds(const std::function<void()>& loop,
                              const std::function<void()>& hand_over, const Memory& totals) const {
  using Clock = std::chrono::steady_clock;
  struct End {
    double seconds;
    Index left;  // the first place, or own number, that is not done
  };
  if (totals && by_own_number()) {
    throw std::logic_error("totals go from rank to rank only if items are had in turn");
  }
  const Index all = rounds_->last;
  const Index least = (by_own_number() ? 1 : Index{ranks_->count()}) * loop_->threads();
  Index size = least;
  for (Index first = 0; first < all; first = rounds_->last) {
    rounds_->first = first;
    rounds_->last = std::min(all, first + size);
    if (totals && first > 0 && rank_of(first - 1) == ranks_->own()) {
      hand_to_next_rank(first - 1, totals);
    }
    const auto start = Clock::now();
    const Index own_left = run_round(loop, totals);
    const double own_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    double longest = 0;
    Index left = rounds_->last;
    for (const End& end : gathered(*ranks_, End{own_seconds, own_left})) {
      longest = std::max(longest, end.seconds);
      left = std::min(left, end.left);
    }
    // Handed over is what all have done so far.
    rounds_->first = 0;
    if (loop_->keeps()) loop_->done_by_ranks(first, left);
    if (left < rounds_->last) {
      rounds_->last = left;
      loop_->given_up(hand_over);
    }
    if (left < all) loop_->round_done(hand_over);
    const double growth = std::min(round_seconds / longest, largest_growth);
    const double next = std::min(static_cast<double>(size) * growth, static_cast<double>(all));
    size = std::max(least, static_cast<Index>(next) / least * least);
  }
  loop_->rounds_done(hand_over);
}

// Returns the first place, or own number, that this process has left.
Index RankShare::run_round(const std::function<void()>& loop, const Memory& totals) const {
  rounds_->done.assign(static_cast<std::size_t>(own_count()), 0);
  rounds_->taken = 0;
  rounds_->in_turn = totals != nullptr;
  try {
    const StopFlag::Use obey(loop_->stop());
    loop();
    return last_place();
  } catch (const Stopped&) {
    if (totals) give_up(totals);
    return first_left();
  }
}

Index RankShare::first_left() const {
  const std::vector<std::uint8_t>& done = rounds_->done;
  const Index n = std::find(done.begin(), done.end(), 0) - done.begin();
  if (n == own_count()) return last_place();
  return by_own_number() ? first_place() + n : own_places().at(n);
}

// Takes the totals that are still to come in this round, and hands on that there are none. Those
// that do come are of all items before the first one that is left.
void RankShare::give_up(const Memory& totals) const {
  const Places own = own_places();
  for (Index n = 0; n < own.count; ++n) {
    if (rounds_->done[static_cast<std::size_t>(n)] != 0) continue;
    if (n >= rounds_->taken) take_from_rank_before(own.at(n), totals);
    if (own.at(n) + 1 < last_place()) hand_to_next_rank(own.at(n), nullptr);
  }
}

// Before the first place there is nothing. False: the item before was given up.
bool RankShare::take_from_rank_before(Index place, const Memory& totals) const {
  if (rounds_) ++rounds_->taken;
  if (place == 0) return true;
  const int before = rank_of(place - 1);
  if (rounds_) {
    bool is_whole = false;
    ranks_->receive(before, std::as_writable_bytes(std::span(&is_whole, 1)));
    if (!is_whole) return false;
  }
  totals([&](std::span<std::byte> bytes) { ranks_->receive(before, bytes); });
  return true;
}

// Without totals: that the item is given up.
void RankShare::hand_to_next_rank(Index place, const Memory& totals) const {
  const int next = rank_of(place + 1);
  if (rounds_) {
    const bool is_whole = totals != nullptr;
    ranks_->send(next, std::as_bytes(std::span(&is_whole, 1)));
    if (!is_whole) return;
  }
  totals([&](std::span<std::byte> bytes) { ranks_->send(next, bytes); });
}

// Items of one rank after the other lie side by side in the exchanged memory.
void RankShare::exchange(const Results& results, Index begin, Index end) const {
  const Index count = ranks_->count();
  Index most = 0;  // items of a rank
  for (Index rank = 0; rank < count; ++rank) {
    most = std::max(most, places_of(rank, begin, end).count);
  }
  // From number `first` to `last` of those of a rank.
  const auto for_items = [&](Index first, Index last, Index rank, const Visit& visit) {
    const Places places = places_of(rank, begin, end);
    for (Index n = first; n < std::min(last, places.count); ++n) {
      results(item_at(places.at(n)), visit);
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
  if (among_ranks()) exchange(results, 0, last_place());
  if (loop_) loop_->results(results);
}

void RankShare::add_in_turn(Index item, const Memory& totals,
                            const std::function<void()>& add) const {
  if (rounds_ && !rounds_->in_turn) {
    throw std::logic_error("a loop adds in turn to totals that RankShare::run was not given");
  }
  const Index place = place_of(item);
  if (loop_ && place == 0) loop_->begin_totals(item, totals);
  const auto is_own = [&](Index other) { return rank_of(other) == ranks_->own(); };
  if (among_ranks() && (place == 0 || !is_own(place - 1))) {
    if (!take_from_rank_before(place, totals)) throw Stopped();
  }
  add();
  if (among_ranks() && place + 1 < last_place() && !is_own(place + 1)) {
    hand_to_next_rank(place, totals);
  }
  done(item);
}

void RankShare::take_totals(const Memory& totals) const {
  const Index last = last_place();
  if (among_ranks() && last > 0) {
    exchange([&](Index, const Visit& visit) { totals(visit); }, last - 1, last);
  }
  if (loop_) loop_->totals(totals);
}

}  // namespace attn::kernel
