#pragma once

#include <functional>
#include <memory>
#include <span>

#include "kernel/loop_record.hpp"
#include "kernel/ranks.hpp"
#include "tensor/shape.hpp"
#include "tensor/view.hpp"

namespace attn::kernel {

/// The items of a loop that this process computes: of P ranks, number r has items r, r + P, …, so
/// that each has some of the long and some of the short ones. Without ranks all items are its own,
/// but for those that a record (loop_record.hpp) holds.
class RankShare {
 public:
  /// Both may be null. The loops of ranks are not recorded.
  RankShare(Index items, Ranks* ranks, LoopRecord* record = nullptr)
      : items_(items), ranks_(ranks) {
    if (record != nullptr && !among_ranks()) {
      loop_ = std::make_shared<LoopRecord::Loop>(*record, items);
    }
  }

  /// Whether results are to be handed over: by other ranks, or by a record or to it.
  bool divided() const { return loop_ != nullptr || among_ranks(); }

  /// Runs `loop`, which computes the own items, and then `hand_over`, which completes the results.
  /// With a record `hand_over` may be called more often; it must do nothing else.
  template <class Loop, class HandOver>
  void run(const Loop& loop, const HandOver& hand_over) const {
    if (loop_) return loop_->run(loop, hand_over);
    loop();
    hand_over();
  }

  /// To be called in the loop once an item is done, unless it is added in turn.
  void done(Index item) const {
    if (loop_) loop_->done(item);
  }

  /// The number of own items, and the one at position n of them, n from 0.
  Index own_count() const;
  Index own_item(Index n) const {
    if (loop_) return loop_->left()[static_cast<std::size_t>(n)];
    return among_ranks() ? ranks_->own() + n * ranks_->count() : n;
  }

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
  bool among_ranks() const { return ranks_ != nullptr && ranks_->count() > 1; }

  Index items_;
  Ranks* ranks_;
  std::shared_ptr<LoopRecord::Loop> loop_;
};

}  // namespace attn::kernel
