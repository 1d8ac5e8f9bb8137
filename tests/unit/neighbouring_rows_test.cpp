// Ranks that have neighbouring rows, and need few others: the bits are those of one process.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "feasibility/allowed_pairs.hpp"
#include "pass/rank_rows.hpp"
#include "same_bits.hpp"
#include "shared_run.hpp"
#include "sinkhorn/gibbs_kernel.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "thread_ranks.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::testing;
using namespace attn::tile_oracle;

namespace {

constexpr auto neighbouring = Ranks::Rows::neighbouring;

// `compute()` on ranks that have neighbouring rows.
template <class Compute>
auto on_neighbours(int count, const Compute& compute) {
  return on_ranks(count, [&] {
    const Ranks::Use rows(Ranks::current(), neighbouring);
    return compute();
  });
}

// A matrix that counts the rows that a pass by rows reads outside of the own ones.
template <class T>
class WatchedMatrix final : public MatrixSource<T> {
 public:
  WatchedMatrix(const std::vector<T>& values, Index cols) : matrix_(values.data(), cols, 1, 9) {}
  void read(const TileRange& range, MatrixView<T> out) const override {
    const Ranks* const ranks = ranks_;
    if (ranks != nullptr && (range.row0 < own.first || range.row0 + range.rows > own.last))
      ++others;
    matrix_.read(range, out);
  }
  double bound() const override { return matrix_.bound(); }

  void watch(Index rows, Index cols) {
    ranks_ = Ranks::current();
    if (ranks_ != nullptr) {
      own = neighbouring_rows(rows, cols, sizeof(T), ranks_->own(), ranks_->count());
    }
  }
  RowRange own;
  mutable std::atomic<Index> others = 0;

 private:
  BroadcastMatrix<T> matrix_;
  Ranks* ranks_ = nullptr;
};

template <class T>
std::vector<T> random_scores(Index rows, Index cols, double forbidden, Random& random) {
  std::uniform_real_distribution<double> number(-9, 9);
  std::vector<T> values(static_cast<std::size_t>(rows * cols));
  for (T& one : values) {
    one = chance(random, forbidden) ? -std::numeric_limits<T>::infinity()
                                    : static_cast<T>(number(random));
  }
  return values;
}

struct FoundPairs {
  AllowedCounts counts;
  bool in_runs = false;
  std::vector<bool> allowed;
};

FoundPairs find_pairs(const Scores<float>& scores, int threads) {
  FoundPairs found;
  found.counts = scores.allowed_counts();
  const AllowedPairs pairs = allowed_pairs(scores, threads);
  found.in_runs = pairs.in_runs();
  for (Index i = 0; i < scores.rows(); ++i) {
    for (Index j = 0; j < scores.cols(); ++j) found.allowed.push_back(pairs.contains(i, j));
  }
  return found;
}

}  // namespace

TEST_CASE("rows of ranks hold those of their slots in every pass by rows") {
  for (const Index rows : {1, 95, 300, 2000, 9999}) {
    for (const Index cols : {1, 700, 70000}) {
      for (const Index ranks : {1, 2, 3, 8}) {
        Index next = 0;
        for (Index rank = 0; rank < ranks; ++rank) {
          const RowRange own = neighbouring_rows(rows, cols, 4, rank, ranks);
          CHECK(own.last - own.first <= most_neighbouring_rows(rows, cols, 4, ranks));
          for (const Partition& pass : {row_pass_partition(rows, cols, 4),
                                        partition_of(Order::row_panels, rows, cols, 4)}) {
            const Index first = pass.first_line(first_neighbour(pass.slots, rank, ranks));
            const Index last = pass.first_line(first_neighbour(pass.slots, rank + 1, ranks));
            if (first == last) continue;
            CHECK(own.first <= first);
            CHECK(last <= own.last);
          }
          if (own.first == own.last) continue;
          CHECK(own.first <= next);
          next = std::max(next, own.last);
        }
        CHECK(next == rows);
        // Not many more than an equal share.
        if (rows > 64 * 48)
          CHECK(most_neighbouring_rows(rows, cols, 4, ranks) <= rows / ranks + 400);
      }
    }
  }
}

TEST_CASE("the kernel of the rank that has the most") {
  for (const auto cut : {Ranks::Rows::in_turn, neighbouring}) {
    CHECK(kept_kernel_bytes(1000, 700, 4, {1, cut}) == 1000 * 700 * 4);
    CHECK(kept_kernel_bytes(32 * 48, 10, 8, {4, cut}) == 8 * 48 * 10 * 8);
  }
}

TEST_CASE_TEMPLATE("attention of ranks with neighbouring rows", T, float, double) {
  Random random(731);
  for (int n = 0; n < repeats(12); ++n) {
    const Problem<T> problem(random_options(random, 300), random);
    for (const Scheme scheme : all_schemes) {
      CAPTURE(n);
      const auto compute = [&] { return run_divided(problem, fixed(scheme), 2); };
      const auto alone = compute();
      for (const auto& found : on_neighbours(2 + n % 3, compute)) CHECK(same_run(found, alone));
    }
  }
}

TEST_CASE_TEMPLATE("transport of ranks with neighbouring rows", T, float, double) {
  Random random(732);
  for (int n = 0; n < repeats(20); ++n) {
    const Index rows = random_size(random, 1, 500);
    const Index cols = random_size(random, 1, 300);
    const std::vector<T> values = random_scores<T>(rows, cols, n % 3 == 0 ? 0.2 : 0, random);
    const double scale = n % 2 == 0 ? 1 : 20;
    const auto ready_marginals = [](Index length) {
      return PooledVector<double>(static_cast<std::size_t>(length),
                                  1.0 / static_cast<double>(length));
    };
    SinkhornOptions options;
    options.stopping.iterations = 5;
    // With forbidden pairs the gap is then found by trees.
    if (n % 4 == 3 || n % 6 == 0) options.stopping.tolerance = 1e-3;
    options.tuning.kept_bytes = n % 5 == 0 ? 0 : 1 << (10 + n);
    const auto compute = [&] {
      WatchedMatrix<T> matrix(values, cols);
      matrix.watch(rows, cols);
      const auto energy = make_stored_energy<T>(matrix, rows, cols, scale);
      typename Scores<T>::Terms terms;
      terms.energy = energy.get();
      const Scores<T> scores(terms);
      Marginals marginals;
      marginals.row = ready_marginals(rows);
      marginals.col = ready_marginals(cols);
      SinkhornSolution found = solve_sinkhorn<T>(scores, marginals, options, {}, 2);
      found.errors = {static_cast<double>(matrix.others)};
      return found;
    };
    const SinkhornSolution alone = compute();
    for (const SinkhornSolution& found : on_neighbours(2 + n % 3, compute)) {
      CHECK(same_bits(found.potentials.row, alone.potentials.row));
      CHECK(same_bits(found.potentials.col, alone.potentials.col));
      CHECK(found.summary.score == alone.summary.score);
      CHECK(same_bits(&found.summary.gap, &alone.summary.gap, 1));
      // Where exponentials need no reference, only counts read a few rows of others, each once.
      if (sizeof(T) == 8 && scale == 1) {
        CHECK(found.errors.front() <= 2 * 2 * static_cast<double>(cols / 1024 + 1));
      }
    }
  }
}

TEST_CASE("allowed pairs of ranks with neighbouring rows") {
  Random random(733);
  int in_runs = 0;
  for (int n = 0; n < 40; ++n) {
    const Index rows = random_size(random, 1, 400);
    const Index cols = random_size(random, 1, 150);
    std::vector<float> values = random_scores<float>(rows, cols, n % 2 == 0 ? 0 : 0.01, random);
    for (Index j = 0; j < cols; ++j) {
      for (Index i = 0; i < rows; ++i) {
        const bool closed = i % 50 == 7 || (n % 3 == 0 && (j == 0 || j == cols - 1));
        if (closed) values[static_cast<std::size_t>(i * cols + j)] = -INFINITY;
      }
    }
    const BroadcastMatrix<float> source(values.data(), cols, 1);
    const auto energy = make_stored_energy<float>(source, rows, cols, 1);
    Scores<float>::Terms terms;
    terms.energy = energy.get();
    if (n % 4 == 3) terms.band = causal_band(Causal::bottom_right, rows, cols);
    const Scores<float> scores(terms);
    const FoundPairs alone = find_pairs(scores, 1);
    in_runs += alone.in_runs ? 1 : 0;
    for (const FoundPairs& found :
         on_neighbours(2 + n % 3, [&] { return find_pairs(scores, 2); })) {
      CAPTURE(n);
      CHECK(found.counts.keys_of_query == alone.counts.keys_of_query);
      CHECK(found.counts.queries_of_key == alone.counts.queries_of_key);
      CHECK(found.in_runs == alone.in_runs);
      CHECK(found.allowed == alone.allowed);
    }
  }
  CHECK(in_runs > 5);
  CHECK(in_runs < 35);
}
