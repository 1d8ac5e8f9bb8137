#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

#include "kernel/parallel.hpp"
#include "kernel/rank_share.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Calls solve(q, worker) for the queries 0, 1, …, count − 1, which do not depend on each other, on
/// up to `threads` threads, divided among ranks and recorded (kernel/rank_share.hpp).
/// results(q, visit) visits the memory of all that solve writes for a query.
template <class Solve, class Results>
void for_each_query(Index count, int threads, const Solve& solve, const Results& results) {
  const kernel::RankShare share(count, kernel::Ranks::current(), kernel::LoopRecord::current());
  share.run(
      [&] {
        kernel::parallel_for(share.own_count(), threads, [&](Index n, int worker) {
          const Index q = share.own_item(n);
          solve(q, worker);
          share.done(q);
        });
      },
      [&] { share.complete(results); });
}

/// Visits the rows q of matrices, but for those without rows.
inline void visit_rows(std::initializer_list<MatrixView<double>> matrices, Index q,
                       const kernel::RankShare::Visit& visit) {
  for (const MatrixView<double>& rows : matrices) {
    if (rows.rows == 0) continue;
    visit(std::as_writable_bytes(std::span(rows.row(q), static_cast<std::size_t>(rows.cols))));
  }
}

}  // namespace attn
