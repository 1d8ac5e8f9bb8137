#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kernel/loop_record.hpp"
#include "kernel/ranks.hpp"
#include "tensor/shape.hpp"
#include "tensor/view.hpp"

namespace attn::kernel {

/// The first of `items` items that a rank has if each has neighbouring ones; that of the rank
/// after the last is `items`.
inline Index first_neighbour(Index items, Index rank, Index ranks) { return rank * items / ranks; }

/// The items of a loop that this process computes: of P ranks, number r has every P-th one from the
/// r-th on, so that each has some of the long and some of the short ones; or those from ⌊r n/P⌋ to
/// ⌊(r + 1) n/P⌋, side by side. Without ranks all items are its own. Items that a record
/// (loop_record.hpp) holds are left out.
///
/// Ranks with a record compute in rounds of about a second. After each they agree whether to write
/// the record, and whether to stop. A rank that is asked to stop within a round gives it up: then
/// all ranks keep the items before the first one that is not done, if the record keeps any, and
/// stop.
class RankShare {
 public:
  /// Both may be null. With a record that keeps loops items are had in turn.
  RankShare(Index items, Ranks* ranks, LoopRecord* record = nullptr,
            Ranks::Rows cut = Ranks::Rows::in_turn);

  /// Those of this thread's ranks if each holds neighbouring rows only, else all items, of rows
  /// that are cut alike.
  static RankShare of_held_rows(Index items) {
    const bool divided = Ranks::rows() == Ranks::Rows::neighbouring;
    return {items, divided ? Ranks::current() : nullptr, nullptr, Ranks::rows()};
  }

  /// Whether results are to be handed over: by other ranks, or by a record or to it.
  bool divided() const { return loop_ != nullptr || among_ranks(); }

  /// A Memory calls visit(bytes) for each of its pieces, which have the same sizes on all ranks.
  using Visit = std::function<void(std::span<std::byte> bytes)>;
  using Memory = std::function<void(const Visit& visit)>;

  /// Runs `loop`, which computes the own items, and then `hand_over`, which completes the results.
  /// With a record `hand_over` may be called more often; it must do nothing else. In rounds `loop`
  /// is called for each, when own_count() and own_item() are those of the round. `totals`: the
  /// memory of the sums that `loop` adds to in turn; must be given if it does.
  template <class Loop, class HandOver>
  void run(const Loop& loop, const HandOver& hand_over, const Memory& totals = nullptr) const {
    if (rounds_) return run_in_rounds(loop, hand_over, totals);
    if (loop_) return loop_->run(loop, hand_over);
    loop();
    hand_over();
  }

  /// To be called in the loop once an item is done, unless it is added in turn.
  void done(Index item) const;

  /// The number of own items, and the one at position n of them, n from 0. Before run, those of all
  /// rounds.
  Index own_count() const;
  Index own_item(Index n) const;

  /// The same for the memory of an item's results.
  using Results = std::function<void(Index item, const Visit& visit)>;

  /// A rank's part of one exchange, at least; longer results take several.
  static constexpr std::int64_t exchanged_bytes = std::int64_t{4} << 20;

  /// Called by all ranks after their own items: sends their results to the others, and takes those
  /// of the other items.
  void complete(const Results& results) const;

  /// Adds an item to sums over all items, in the order of the items. The totals so far come from
  /// the rank that has added the item before; `add` adds this one; then they go on to the rank of
  /// the next. To be called for the own items in their order. Throws Stopped if an item before this
  /// one was given up, std::logic_error if run was not given the totals in rounds.
  void add_in_turn(Index item, const Memory& totals, const std::function<void()>& add) const;

  /// Called by all ranks afterwards: takes the totals from the rank of the last item.
  void take_totals(const Memory& totals) const;

  /// The same as `complete` for results by line, of which item n has lines [first(n), first(n +
  /// 1)).
  template <class T>
  void complete_rows(MatrixView<T> rows, const std::function<Index(Index item)>& first) const {
    complete([&](Index item, const Visit& visit) {
      for (Index i = first(item); i < first(item + 1); ++i) {
        visit(std::as_writable_bytes(std::span(rows.row(i), static_cast<std::size_t>(rows.cols))));
      }
    });
  }
  template <class T>
  void complete_numbers(std::span<T> numbers, const std::function<Index(Index item)>& first) const {
    complete([&](Index item, const Visit& visit) {
      const auto begin = static_cast<std::size_t>(first(item));
      const auto end = static_cast<std::size_t>(first(item + 1));
      visit(std::as_writable_bytes(numbers.subspan(begin, end - begin)));
    });
  }

 private:
  // The items at places [first, last) of those to compute. If ranks have neighbouring ones, the
  // n-th of each rank for n in [first, last).
  struct Rounds {
    Index first = 0;
    Index last = 0;
    std::mutex mutex;
    std::vector<std::uint8_t> done;  // by own item
    bool in_turn = false;            // whether run() was given totals
    Index taken = 0;                 // own items whose totals have come from the rank before
  };

  // The places of one rank: `count` of them, `step` apart.
  struct Places {
    Index first = 0;
    Index count = 0;
    Index step = 1;

    Index at(Index n) const { return first + n * step; }
  };

  bool among_ranks() const { return ranks_ != nullptr && ranks_->count() > 1; }
  Index item_at(Index place) const {
    return loop_ ? loop_->left()[static_cast<std::size_t>(place)] : place;
  }
  bool by_own_number() const { return neighbouring_ && rounds_; }
  Index place_of(Index item) const;
  int rank_of(Index place) const;
  // Those in [begin, end), which are own numbers if rounds are.
  Places places_of(Index rank, Index begin, Index end) const;
  Places own_places() const;
  Index first_place() const { return rounds_ ? rounds_->first : 0; }
  Index last_place() const;
  void run_in_rounds(const std::function<void()>& loop, const std::function<void()>& hand_over,
                     const Memory& totals) const;
  Index run_round(const std::function<void()>& loop, const Memory& totals) const;
  Index first_left() const;
  void give_up(const Memory& totals) const;
  bool take_from_rank_before(Index place, const Memory& totals) const;
  void hand_to_next_rank(Index place, const Memory& totals) const;
  void exchange(const Results& results, Index first, Index last) const;

  Index items_;
  Ranks* ranks_;
  bool neighbouring_;
  std::shared_ptr<LoopRecord::Loop> loop_;
  std::shared_ptr<Rounds> rounds_;  // of ranks with a record
};

}  // namespace attn::kernel
