#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "parallel/ranks.hpp"
#include "tensor/shape.hpp"
#include "tensor/view.hpp"

namespace attn {

/// The first of `items` items that a rank has if each rank has neighbouring items; `items` for the
/// rank after the last.
inline Index first_neighbour(Index items, Index rank, Index ranks) { return rank * items / ranks; }

/// The items of a loop that this process computes: of P ranks, number r has every P-th one from the
/// r-th on, so that each has some of the long and some of the short ones; or those from ⌊r n/P⌋ to
/// ⌊(r + 1) n/P⌋, side by side. Without ranks all items are its own. After the loop, `complete` or
/// `take_totals` gives each rank the results of all.
class RankShare {
 public:
  /// `ranks` may be null.
  RankShare(Index items, Ranks* ranks, Ranks::Rows cut = Ranks::Rows::in_turn)
      : items_(items), ranks_(ranks), neighbouring_(cut == Ranks::Rows::neighbouring) {}

  /// The items of this thread's ranks if each rank holds neighbouring rows only, else all items;
  /// all rows are cut alike.
  static RankShare of_held_rows(Index items) {
    const bool divided = Ranks::rows() == Ranks::Rows::neighbouring;
    return {items, divided ? Ranks::current() : nullptr, Ranks::rows()};
  }

  /// Whether there are other ranks, to which results are handed over.
  bool divided() const { return ranks_ != nullptr && ranks_->count() > 1; }

  /// The number of own items, and the n-th own item, n from 0.
  Index own_count() const { return own().count; }
  Index own_item(Index n) const { return own().at(n); }

  /// A Memory calls visit(bytes) for each of its pieces, which have the same sizes on all ranks.
  using Visit = std::function<void(std::span<std::byte> bytes)>;
  using Memory = std::function<void(const Visit& visit)>;

  /// The same for the memory of an item's results.
  using Results = std::function<void(Index item, const Visit& visit)>;

  /// A rank's part of one exchange, at least; longer results take several.
  static constexpr std::int64_t exchanged_bytes = std::int64_t{4} << 20;

  /// Called by all ranks after their own items: sends their results to the others, and receives the
  /// results of the other items.
  void complete(const Results& results) const;

  /// Adds an item to sums over all items, in the order of the items. The totals so far come from
  /// the rank that has added the item before; `add` adds this one; then they go on to the rank of
  /// the next. To be called for the own items in their order.
  void add_in_turn(Index item, const Memory& totals, const std::function<void()>& add) const;

  /// Called by all ranks afterwards: takes the totals from the rank of the last item.
  void take_totals(const Memory& totals) const;

  /// The same as `complete` for results by line: item n has lines [first(n), first(n + 1)).
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
  // The items of one rank: `count` of them, `step` apart.
  struct Items {
    Index first = 0;
    Index count = 0;
    Index step = 1;

    Index at(Index n) const { return first + n * step; }
  };

  int rank_of(Index item) const;
  // The items in [begin, end).
  Items items_of(Index rank, Index begin, Index end) const;
  Items own() const;
  void exchange(const Results& results, Index begin, Index end) const;

  Index items_;
  Ranks* ranks_;
  bool neighbouring_;
};

}  // namespace attn
