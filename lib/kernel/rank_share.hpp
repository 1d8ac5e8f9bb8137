#pragma once

#include <functional>
#include <span>

#include "kernel/ranks.hpp"
#include "tensor/shape.hpp"
#include "tensor/view.hpp"

namespace attn::kernel {

/// The items of a loop that this process computes: of P ranks, number r has items r, r + P, …, so
/// that each has some of the long and some of the short ones. Without ranks all items are its own.
class RankShare {
 public:
  /// `ranks` may be null.
  RankShare(Index items, Ranks* ranks) : items_(items), ranks_(ranks) {}

  bool divided() const { return ranks_ != nullptr && ranks_->count() > 1; }

  /// The number of own items, and the one at position n of them, n from 0.
  Index own_count() const;
  Index own_item(Index n) const { return divided() ? ranks_->own() + n * ranks_->count() : n; }

  /// Calls visit(bytes) for the memory of an item's results, which has the same sizes on all ranks.
  using Visit = std::function<void(std::span<std::byte> bytes)>;
  using Results = std::function<void(Index item, const Visit& visit)>;

  /// Called by all ranks after their own items: sends their results to the others, and takes those
  /// of the other items.
  void complete(const Results& results) const;

  /// Adds an item to sums over all items, in the order of the items. The totals so far come from
  /// the rank that has added the item before; `add` adds this one; then they go on to the rank of
  /// the next. To be called for the own items in their order. `totals` visits the memory of the
  /// sums.
  using Memory = std::function<void(const Visit& visit)>;
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
  Index items_;
  Ranks* ranks_;
};

}  // namespace attn::kernel
