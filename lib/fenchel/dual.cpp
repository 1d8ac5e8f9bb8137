#include "fenchel/dual.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <type_traits>

#include "fenchel/certificate.hpp"
#include "fenchel/dense_newton.hpp"
#include "fenchel/each_query.hpp"
#include "fenchel/kullback_leibler.hpp"
#include "fenchel/query_block.hpp"
#include "fenchel/space.hpp"
#include "fenchel/transport.hpp"
#include "kernel/conjugate.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/rank_share.hpp"

namespace attn {
namespace {

using namespace fenchel;

// Queries of a block, given the number of all queries: fixed by the shape, so that nothing depends
// on the threads. With more than one part, parts have whole blocks.
Index block_rows(Index queries) {
  constexpr Index least = 8;
  return std::clamp<Index>(queries, 1, std::clamp<Index>((queries + 3) / 4, least, dual_part_step));
}

Index blocks_of(Index queries, Index rows) { return (queries + rows - 1) / rows; }

// Steps of a query, in addition to those in its block, before it is first solved for smaller α.
constexpr Index most_direct_steps = 20;

class DualSolver {
 public:
  DualSolver(const DualProblem& problem, const DualOptions& options, int threads,
             const DualResults& results)
      : problem_(problem),
        options_(options),
        threads_(threads),
        results_(results),
        all_(problem.templates, threads),
        summaries_(static_cast<std::size_t>(problem.evidence.rows)),
        left_(summaries_.size(), 0),
        mean_(problem.evidence.rows, problem.evidence.cols) {
    require_range(problem, all_);
  }

  PooledVector<DualSummary> solve() {
    const bool wide = all_.count() < all_.depth();
    const bool small = std::min(all_.count(), all_.depth()) <= MomentSteps::most_depth;
    if (problem_.transport) {
      std::fill(left_.begin(), left_.end(), std::uint8_t{1});
      scaled_cost_ = std::make_unique<ScaledCost>(*problem_.transport, all_.count());
    } else {
      solve_blocks(Space(all_, wide && small), small);
    }
    solve_left();
    add_centre();
    return std::move(summaries_);
  }

 private:
  Index queries() const { return problem_.evidence.rows; }
  Index of_all() const { return problem_.all_queries > 0 ? problem_.all_queries : queries(); }

  void solve_blocks(const Space& space, bool small) {
    const Templates& templates = space.templates();
    std::unique_ptr<StepFinder> finder;
    if (small) {
      finder = std::make_unique<MomentSteps>(templates, problem_.alpha);
    } else if (GramSteps::pays(templates, problem_.alpha, of_all())) {
      finder = std::make_unique<GramSteps>(templates, problem_.alpha, threads_);
    } else {
      finder = std::make_unique<ConjugateSteps>(templates, problem_.alpha, threads_);
    }
    OwnedMatrix<double> evidence, lambda, mean;
    BlockProblem block{
        templates,       problem_.evidence, problem_.preference, problem_.alpha, options_, *finder,
        results_.lambda, mean_.view(),      results_.p,          summaries_,     left_};
    if (space.is_reduced()) {
      evidence = OwnedMatrix<double>(queries(), space.depth());
      space.project(problem_.evidence, evidence.view());
      lambda = OwnedMatrix<double>(queries(), space.depth());
      mean = OwnedMatrix<double>(queries(), space.depth());
      block.evidence = evidence.read();
      block.lambda = lambda.view();
      block.mean = mean.view();
    }
    const Index rows = block_rows(of_all());
    const Index blocks = blocks_of(queries(), rows);
    PooledVector<std::unique_ptr<BlockSolver>> solvers(static_cast<std::size_t>(threads_));
    const RankShare share(blocks, Ranks::current());
    parallel_for(share.own_count(), threads_, [&](Index n, int worker) {
      auto& solver = solvers[static_cast<std::size_t>(worker)];
      if (!solver) solver = std::make_unique<BlockSolver>(block, rows);
      const Index first = share.own_item(n) * rows;
      solver->solve(first, std::min(rows, queries() - first));
    });
    share.complete([&](Index n, const RankShare::Visit& visit) {
      for (Index q = n * rows; q < std::min(queries(), (n + 1) * rows); ++q) {
        visit_results(q, block.lambda, block.mean, visit);
      }
    });
    if (space.is_reduced()) lift(space, evidence, lambda, mean);
  }

  // λ = αz + the basis times (λ in coordinates − αz).
  void lift(const Space& space, const OwnedMatrix<double>& evidence,
            const OwnedMatrix<double>& lambda, const OwnedMatrix<double>& mean) {
    for (Index q = 0; q < queries(); ++q) {
      const bool empty = summaries_[static_cast<std::size_t>(q)].status == DualStatus::empty;
      double* to = results_.lambda.row(q);
      for (Index c = 0; c < all_.depth(); ++c) {
        to[c] = empty ? 0 : problem_.alpha * problem_.evidence(q, c);
      }
      std::fill_n(mean_.row(q), all_.depth(), 0.0);
      if (empty) continue;
      add_orthogonal(space, q, evidence.row(q));
      double* change = lambda.row(q);
      for (Index c = 0; c < space.depth(); ++c) change[c] -= problem_.alpha * evidence.row(q)[c];
      space.add_lifted({change, 1, space.depth()}, {to, 1, all_.depth()});
      space.add_lifted({mean.row(q), 1, space.depth()}, {mean_.row(q), 1, all_.depth()});
    }
  }

  // Adds the share of the part of z outside the coordinates z̃ to both values: there λ = αz.
  void add_orthogonal(const Space& space, Index q, const double* coordinates) {
    const OwnedMatrix<double> away = space.outside(problem_.evidence.row_range(q, 1), coordinates);
    const double value = problem_.alpha / 2 * kernel::dot(away.row(0), away.row(0), all_.depth());
    summaries_[static_cast<std::size_t>(q)].primal += value;
    summaries_[static_cast<std::size_t>(q)].dual += value;
  }

  // Solves the queries that blocks have left, one by one.
  void solve_left() {
    PooledVector<Index> left;
    for (Index q = 0; q < queries(); ++q) {
      if (left_[static_cast<std::size_t>(q)] != 0) left.push_back(q);
    }
    if (left.empty()) return;
    const Space space(all_, all_.count() < all_.depth());
    PooledVector<std::unique_ptr<DenseNewton>> solvers(static_cast<std::size_t>(threads_));
    const auto query = [&](Index item) { return left[static_cast<std::size_t>(item)]; };
    const auto solve_item = [&](Index item, int worker) {
      auto& solver = solvers[static_cast<std::size_t>(worker)];
      if (!solver) solver = std::make_unique<DenseNewton>(space.templates());
      solve_one(space, *solver, query(item));
    };
    for_each_query(std::ssize(left), threads_, solve_item, [&](Index item, const auto& visit) {
      visit_results(query(item), results_.lambda, mean_.view(), visit);
    });
  }

  // Visits the memory of all results of a query.
  void visit_results(Index q, MatrixView<double> lambda, MatrixView<double> mean,
                     const RankShare::Visit& visit) {
    static_assert(std::is_trivially_copyable_v<DualSummary>);
    const auto at = static_cast<std::size_t>(q);
    visit(std::as_writable_bytes(std::span(&summaries_[at], 1)));
    visit(std::as_writable_bytes(std::span(&left_[at], 1)));
    visit_rows({lambda, mean, results_.p}, q, visit);
  }

  void solve_one(const Space& space, DenseNewton& solver, Index q) {
    const Index n = all_.count();
    const Index d = space.depth();
    DualSummary& summary = summaries_[static_cast<std::size_t>(q)];
    const double* u = problem_.preference.row(problem_.preference.rows == 1 ? 0 : q);
    const OwnedDivergence divergence(scaled_cost_.get(), u, n);
    if (divergence.is_empty()) {
      std::fill_n(results_.lambda.row(q), all_.depth(), 0.0);
      return;
    }
    OwnedMatrix<double> z(1, d), lambda(1, d), mean(1, d), target(1, d), p(1, n), zero(1, n);
    std::fill_n(zero.row(0), n, 0.0);
    const MatrixView<const double> evidence = problem_.evidence.row_range(q, 1);
    space.project(evidence, z.view());
    divergence->evaluate(zero.row(0), p.row(0));
    space.templates().means(p.read(), target.view());
    kernel::axpy(target.row(0), z.row(0), d, 1);
    if (summary.iterations > 0) {
      space.project(results_.lambda.row_range(q, 1), lambda.view());
    } else {
      for (Index c = 0; c < d; ++c) lambda.row(0)[c] = problem_.alpha * z.row(0)[c];
    }
    const auto solve_at = [&](double alpha, DualOptions options, Index most) {
      const Index used = summary.iterations;
      options.max_iterations = std::min(most, options_.max_iterations - used);
      summary = solver.solve(*divergence, target.row(0), alpha, options, lambda.row(0), p.row(0),
                             mean.row(0));
      summary.iterations += used;
    };
    solve_at(problem_.alpha, options_, most_direct_steps);
    if (summary.status == DualStatus::iteration_limit &&
        summary.iterations < options_.max_iterations) {
      // Far from λ* the templates that matter change with every step. Smaller α, for which λ* is
      // near 0, lead there: each solution is near the next one.
      for (Index c = 0; c < d; ++c) lambda.row(0)[c] = 1e-5 * problem_.alpha * z.row(0)[c];
      DualOptions rough;
      rough.tolerance = 1e-2;
      for (const double part : {1e-5, 1e-4, 1e-3, 1e-2, 1e-1}) {
        solve_at(part * problem_.alpha, rough, options_.max_iterations);
      }
      solve_at(problem_.alpha, options_, options_.max_iterations);
    }
    space.templates().logits(lambda.read(), zero.view());
    const double partition = divergence->evaluate(zero.row(0), p.row(0));
    certify({lambda.row(0), target.row(0), mean.row(0), p.row(0), d}, partition, problem_.alpha,
            *divergence, summary);
    if (results_.p.rows > 0) std::copy_n(p.row(0), n, results_.p.row(q));
    const MatrixView<double> to = results_.lambda.row_range(q, 1);
    if (!space.is_reduced()) {
      std::copy_n(lambda.row(0), d, to.data);
      std::copy_n(mean.row(0), d, mean_.row(q));
      return;
    }
    add_orthogonal(space, q, z.row(0));
    for (Index c = 0; c < all_.depth(); ++c) to(0, c) = problem_.alpha * evidence(0, c);
    kernel::axpy(lambda.row(0), z.row(0), d, -problem_.alpha);
    space.add_lifted(lambda.read(), to);
    std::fill_n(mean_.row(q), all_.depth(), 0.0);
    space.add_lifted(mean.read(), {mean_.row(q), 1, all_.depth()});
  }

  void add_centre() {
    for (Index q = 0; q < queries(); ++q) {
      const bool empty = summaries_[static_cast<std::size_t>(q)].status == DualStatus::empty;
      if (empty && results_.p.rows > 0) std::fill_n(results_.p.row(q), all_.count(), 0.0);
      if (results_.h.rows == 0) continue;
      for (Index c = 0; c < all_.depth(); ++c) {
        const double centre = all_.centre()[static_cast<std::size_t>(c)];
        results_.h(q, c) = empty ? 0 : centre + mean_.row(q)[c];
      }
    }
  }

  const DualProblem& problem_;
  const DualOptions& options_;
  int threads_;
  const DualResults& results_;
  Templates all_;
  PooledVector<DualSummary> summaries_;
  PooledVector<std::uint8_t> left_;
  OwnedMatrix<double> mean_;
  std::unique_ptr<ScaledCost> scaled_cost_;
};

}  // namespace

PooledVector<DualSummary> solve_dual(const DualProblem& problem, const DualOptions& options,
                                     int threads, const DualResults& results) {
  require_shapes(problem);
  return DualSolver(problem, options, threads, results).solve();
}

Index dual_blocks(Index queries) { return blocks_of(queries, block_rows(queries)); }

std::int64_t dual_bytes(Index queries, Index templates, Index depth, bool transport, int threads) {
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const Index least = std::min(templates, depth);
  // Centred and packed, both once more in float32; in a basis of their span.
  std::int64_t bytes = 3 * (templates + 16) * (depth + 16) * number;
  if (templates < depth) bytes += (depth + 3 * templates) * (templates + 16) * number;
  if (transport) {
    bytes += templates * templates * number;
  } else if (least <= MomentSteps::most_depth) {
    bytes += MomentSteps::bytes(templates, least);
  } else {
    bytes += GramSteps::bytes(templates, depth);
  }
  bytes += queries * (depth + 3 * least + 12) * number;
  std::int64_t each = BlockSolver::bytes(block_rows(queries), templates, depth);
  each += DenseNewton::bytes(templates, least) + (8 * templates + 8 * depth) * number;
  if (transport) each += (templates * templates + templates * least) * number;
  return bytes + threads * each;
}

}  // namespace attn
