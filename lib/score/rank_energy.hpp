#pragma once

#include <memory>

#include "score/energy.hpp"

namespace attn {

/// The energies of `rows` queries, of which this process has some: `own`, from query `first` on. To
/// be called by all of this thread's ranks, which have all of them together; the bounds are those
/// of the whole. Each has none or at least 16, so that all make products alike. fill throws
/// std::logic_error for queries that are not among the own ones.
template <class T>
std::unique_ptr<Energy<T>> make_rank_energy(std::unique_ptr<Energy<T>> own, Index first,
                                            Index rows);

}  // namespace attn
