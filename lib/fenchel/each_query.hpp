#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "parallel/parallel_for.hpp"
#include "parallel/rank_share.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Calls solve(q, worker) for the independent queries 0, 1, …, count − 1 on up to `threads`
/// threads, some queries at a time, which are divided among ranks (parallel/rank_share.hpp).
/// results(q, visit) visits the memory of all that solve writes for a query.
template <class Solve, class Results>
void for_each_query(Index count, int threads, const Solve& solve, const Results& results) {
  const Index together = std::clamp<Index>(count / 64, 1, 32);
  const auto for_item = [count, together](Index item, const auto& body) {
    for (Index q = item * together; q < std::min(count, (item + 1) * together); ++q) body(q);
  };
  const RankShare share((count + together - 1) / together, Ranks::current());
  parallel_for(share.own_count(), threads, [&](Index n, int worker) {
    for_item(share.own_item(n), [&](Index q) { solve(q, worker); });
  });
  share.complete([&](Index item, const RankShare::Visit& visit) {
    for_item(item, [&](Index q) { results(q, visit); });
  });
}

/// Visits row q of each matrix that has rows.
inline void visit_rows(std::initializer_list<MatrixView<double>> matrices, Index q,
                       const RankShare::Visit& visit) {
  for (const MatrixView<double>& rows : matrices) {
    if (rows.rows == 0) continue;
    visit(std::as_writable_bytes(std::span(rows.row(q), static_cast<std::size_t>(rows.cols))));
  }
}

}  // namespace attn
