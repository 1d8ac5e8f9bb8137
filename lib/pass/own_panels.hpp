#pragma once

#include "kernel/packed.hpp"
#include "kernel/parallel.hpp"
#include "pass/partition.hpp"

namespace attn {

/// Own keys, and a few before them, so that packed products begin where those of all keys do; of
/// none, none.
template <class T>
RowRange with_start_of_packed(RowRange own) {
  const Index before = own.first == own.last ? 0 : own.first % kernel::packed_width<T>();
  return {own.first - before, own.last};
}

/// Calls body(slot, panel, scratch) for the panels of slots [first, last), on up to `threads`
/// threads: those of a slot in order and by one thread at a time, with that thread's scratch
/// memory.
template <class Scratch, class Body>
void for_panels_of_slots(const Partition& partition, Index first, Index last, int threads,
                         const Body& body) {
  auto workspaces = workspaces_for<Scratch>(threads);
  kernel::parallel_for(last - first, threads, [&](Index n, int worker) {
    const Index slot = first + n;
    for (Index p = partition.first_panel(slot); p < partition.first_panel(slot + 1); ++p) {
      kernel::stop_if_asked();
      body(slot, p, workspaces[static_cast<std::size_t>(worker)]);
    }
  });
}

}  // namespace attn
