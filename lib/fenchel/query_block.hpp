#pragma once

#include <memory>

#include "fenchel/dual.hpp"
#include "fenchel/dual_search.hpp"
#include "fenchel/dual_stopping.hpp"
#include "fenchel/newton_steps.hpp"
#include "fenchel/templates.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {

/// Inputs of a block of queries, and where its results go; KL only.
struct BlockProblem {
  const Templates& templates;
  MatrixView<const double> evidence;    ///< z (Q, d), in the templates' coordinates
  MatrixView<const double> preference;  ///< u (1, n) or (Q, n)
  double alpha = 1;
  const DualOptions& options;
  const StepFinder& finder;

  MatrixView<double> lambda;  ///< (Q, d)
  MatrixView<double> mean;    ///< of the centred templates under p (Q, d)
  MatrixView<double> p;       ///< (Q, n), or without rows
  PooledVector<DualSummary>& summaries;
  PooledVector<std::uint8_t>& left;  ///< (Q) set for queries for which these steps are slow
};

/// Solves blocks of queries, one after the other: Newton's method for all queries of a block
/// together. Each query leaves when it is done. One per thread.
class BlockSolver : public FromPool {
 public:
  BlockSolver(const BlockProblem& problem, Index most_rows);

  /// Queries [first, first + count), count <= most_rows.
  void solve(Index first, Index count);

  static std::int64_t bytes(Index rows, Index n, Index d);

 private:
  struct Query {
    Index index = 0;
    DualStopping stopping;
    DualSummary summary;
    double partition = 0;
    double gradient_before = 0;
    int slow_steps = 0;
    bool whole_step = false;
  };

  void begin(Index first, Index count);
  void evaluate();
  bool finish(Index row);  ///< whether the query is done or given up
  void keep(Index from, Index to);
  void choose_forcing();
  void step();
  const double* closed(Index row) const;

  BlockProblem problem_;
  std::unique_ptr<StepFinder::Scratch> scratch_;
  PooledVector<Query> queries_;
  OwnedMatrix<double> minus_log_u_, u_;  // for each row, or for all
  OwnedMatrix<double> lambda_, target_, mean_, gradient_, step_;
  OwnedMatrix<double> logits_, p_, along_;
  OwnedMatrix<double> weights_;   // w − u
  OwnedMatrix<double> residual_;  // w − u + p, if the finder needs it
  OwnedMatrix<double> new_weights_;
  PooledVector<double> norms_, forcing_, needed_;
  PooledVector<std::uint8_t> slow_;
  DualSearch search_;
};

}  // namespace attn::fenchel
