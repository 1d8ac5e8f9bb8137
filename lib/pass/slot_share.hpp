#pragma once

#include "parallel/rank_share.hpp"
#include "pass/partition.hpp"

namespace attn {

/// The share of a pass's slots that this process computes, if this thread has ranks.
inline RankShare slots_of_rank(const Partition& partition) {
  using Rows = Ranks::Rows;
  return {partition.slots, Ranks::current(),
          partition.order == Order::row_panels ? Ranks::rows() : Rows::in_turn};
}

/// The slots of a pass that this process computes (parallel/rank_share.hpp). The results of a line
/// belong to the slot that holds its panel.
class SlotShare {
 public:
  /// The share of the thread's ranks; `whole`: all slots, even with ranks.
  explicit SlotShare(const Partition& partition, bool whole = false)
      : partition_(partition),
        share_(whole ? RankShare(partition.slots, nullptr) : slots_of_rank(partition)) {}

  bool divided() const { return share_.divided(); }
  Index own_count() const { return share_.own_count(); }
  Index own_slot(Index n) const { return share_.own_item(n); }
  const Partition& partition() const { return partition_; }

  /// After the pass: takes the lines of the other ranks' slots, each a row of a matrix or one
  /// number. Does nothing for an empty span.
  template <class T>
  void complete_lines(MatrixView<T> rows) const {
    if (divided())
      share_.complete_rows(rows, [&](Index slot) { return partition_.first_line(slot); });
  }
  template <class T>
  void complete_lines(std::span<T> numbers) const {
    if (divided() && !numbers.empty())
      share_.complete_numbers(numbers, [&](Index slot) { return partition_.first_line(slot); });
  }

  /// The same for sums that each slot has gathered in its own memory.
  void complete_slots(const RankShare::Results& gathered) const { share_.complete(gathered); }

  /// Sums over the slots, see parallel/rank_share.hpp.
  void add_in_turn(Index slot, const RankShare::Memory& totals,
                   const std::function<void()>& add) const {
    share_.add_in_turn(slot, totals, add);
  }
  void take_totals(const RankShare::Memory& totals) const { share_.take_totals(totals); }

 private:
  Partition partition_;
  RankShare share_;
};

/// Calls body(panel, slot, workspace) for all panels of the share, on up to `threads` threads. The
/// panels of a slot come in order, by one thread at a time, with that thread's workspace. If rows
/// are selected, only panels with a selected row are visited.
template <class Workspace, class Body>
void for_each_panel(const SlotShare& share, int threads, const RowSelection* rows,
                    PooledVector<Workspace>& workspaces, const Body& body) {
  const Partition& partition = share.partition();
  parallel_for(share.own_count(), threads, [&](Index n, int worker) {
    const Index slot = share.own_slot(n);
    Workspace& workspace = workspaces[static_cast<std::size_t>(worker)];
    for (Index p = partition.first_panel(slot); p < partition.first_panel(slot + 1); ++p) {
      stop_if_asked();
      if (rows == nullptr || rows->meets(partition.lines(p))) body(p, slot, workspace);
    }
  });
}

}  // namespace attn
