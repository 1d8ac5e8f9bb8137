// Heads whose keys or queries come in blocks: the bits of one pass over all of them.

#include "pass/key_blocks.hpp"
#include "pass/query_blocks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "blocked_head.hpp"
#include "infinity.hpp"
#include "pass/one_pass.hpp"
#include "sanitized.hpp"
#include "scheme/scheme.hpp"
#include "stats/observers.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Copies the state of one object to another, in place of a file.
void copy_state(const std::vector<LineNumbers>& from, const std::vector<LineNumbers>& to) {
  REQUIRE(from.size() == to.size());
  for (std::size_t n = 0; n < from.size(); ++n) {
    CHECK(from[n].width == to[n].width);
    REQUIRE(from[n].pieces.size() == to[n].pieces.size());
    for (std::size_t p = 0; p < from[n].pieces.size(); ++p) {
      REQUIRE(from[n].pieces[p].size() == to[n].pieces[p].size());
      std::copy(from[n].pieces[p].begin(), from[n].pieces[p].end(), to[n].pieces[p].begin());
    }
  }
}

// What a scheme finds, by query or key.
template <class T>
struct BlockedResult {
  std::vector<T> out;
  std::vector<double> row, unas_row, col, entropy, col_sum;

  bool operator==(const BlockedResult&) const = default;
};

template <class T>
class BlockedProblem : BlockedHead<T> {
  using Base = BlockedHead<T>;
  using Base::bounds_of_blocks;
  using Base::case_;
  using Base::each_block;
  using Base::largest_value;
  using Base::part_of;
  using Base::whole;
  using typename Base::Part;

 public:
  // `resumes`: after every block another object goes on from the state.
  BlockedProblem(const BlockedShape& of, Random& random, bool resumes)
      : BlockedHead<T>(of, random), resumes_(resumes) {}

  // Without `weights` nothing is wanted that must see them.
  BlockedResult<T> at_once(Scheme scheme, bool weights) const {
    const Part part = whole();
    BlockedResult<T> found = room(case_.queries);
    Output<T> output(part.arrays.v, out_of(found));
    ColumnSums<T> sums;
    RowEntropy<T> entropy;
    SchemeOptions options;
    options.scheme = scheme;
    options.hybrid = hybrid;
    options.sink = case_.sink;
    ObserverList<T> observers = {&output};
    if (weights) observers = {&output, &sums, &entropy};
    const Attention attention = attend<T>(part.scores->scores(), options, observers, 2);
    const auto copy = [](const PooledVector<double>& from) {
      return std::vector<double>(from.begin(), from.end());
    };
    found.row = copy(attention.potentials.row);
    found.unas_row = copy(attention.potentials.unas_row);
    if (scheme != Scheme::unas) found.col = copy(attention.potentials.col);
    found.entropy = copy(entropy.values());
    found.col_sum = copy(sums.values());
    return found;
  }

  // Every process has the keys of neighbouring slots, and all take the queries by blocks of `step`.
  // The processes with complete columns, and g.
  std::pair<std::vector<QueryBlocks<T>>, std::vector<double>> columns_in_query_blocks(
      Scheme scheme, Index processes, Index step, bool sums_rows) const {
    typename QueryBlocks<T>::Options options;
    if (scheme == Scheme::hnas) options.hybrid = hybrid;
    options.partition = one_pass_columns_partition(case_.queries, case_.keys, sizeof(T), sums_rows);
    options.largest_value = largest_value();
    options.sink = case_.sink;
    const ScoreBounds bounds = bounds_of_whole();
    std::vector<QueryBlocks<T>> all;
    std::vector<double> g;
    for (Index p = 0; p < processes; ++p) {
      options.first_slot = p * options.partition.slots / processes;
      options.last_slot = (p + 1) * options.partition.slots / processes;
      QueryBlocks<T>& own = all.emplace_back(options);
      for (int round = 0; round < own.column_rounds(); ++round) {
        for (Index row = 0; row < case_.queries; row += step) {
          const Part part = part_of(own.keys(), row, step, bounds);
          own.add(round, part.scores->scores(), 1 + round);
          if (resumes_) own = resumed(own, options, false, part);
        }
        own.end_round(round);
      }
      std::vector<double> col(static_cast<std::size_t>(own.own_keys().last - own.own_keys().first));
      own.complete_columns(col);
      if (resumes_) own = resumed(own, options, true, part_of(own.keys(), 0, step, bounds));
      g.insert(g.end(), col.begin(), col.end());
    }
    return {std::move(all), std::move(g)};
  }

  BlockedResult<T> in_query_blocks(Scheme scheme, Index processes, Index step) const {
    BlockedResult<T> found = room(case_.queries);
    found.entropy.clear();
    if (scheme == Scheme::hnas) found.unas_row = found.row;
    std::vector<QueryBlocks<T>> all;
    std::tie(all, found.col) = columns_in_query_blocks(scheme, processes, step, true);
    const ScoreBounds bounds = bounds_of_whole();
    for (Index row = 0; row < case_.queries; row += step) {
      const Index rows = std::min(step, case_.queries - row);
      // Each process has sums of its own, which go from one to the next.
      std::vector<T> out(static_cast<std::size_t>(rows * case_.v_head_dim));
      std::vector<std::byte> totals;
      for (Index p = 0; p < processes; ++p) {
        const QueryBlocks<T>& own = all[static_cast<std::size_t>(p)];
        typename QueryBlocks<T>::Sums sums(own, rows, {out.data(), rows, case_.v_head_dim});
        const Part part = part_of(own.keys(), row, step, bounds);
        own.gather(part.scores->scores(), part.arrays.v, sums, 2);
        auto from = totals.begin();
        sums.visit([&](std::span<std::byte> bytes) {
          if (p == 0) return;
          const auto end = from + static_cast<std::ptrdiff_t>(bytes.size());
          std::copy(from, end, bytes.begin());
          from = end;
        });
        own.add(sums);
        totals.clear();
        sums.visit([&](std::span<std::byte> bytes) {
          totals.insert(totals.end(), bytes.begin(), bytes.end());
        });
        if (p + 1 < processes) continue;
        const auto from_row = [&](std::vector<double>& f) {
          return f.empty() ? std::span<double>()
                           : std::span(f).subspan(static_cast<std::size_t>(row));
        };
        const auto left = own.complete_rows(sums, from_row(found.row), from_row(found.unas_row));
        CHECK(left.empty());
        std::copy(out.begin(), out.end(), found.out.begin() + row * case_.v_head_dim);
      }
    }
    return found;
  }

  // Every process has neighbouring slots, and blocks of `step` keys.
  BlockedResult<T> in_key_blocks(Scheme scheme, Index processes, Index step) const {
    BlockedResult<T> all;
    all.col_sum.assign(static_cast<std::size_t>(case_.keys), 0.0);
    typename KeyBlocks<T>::Options options;
    options.partition = row_pass_partition(case_.queries, case_.keys, sizeof(T));
    if (scheme == Scheme::hnas) options.hybrid = hybrid;
    if (scheme != Scheme::unas) {
      auto columns = columns_in_query_blocks(scheme, processes, step, false);
      all.col = std::move(columns.second);
      options.col = all.col;
      options.near_zero = columns.first.front().column_rounds() == 1 && is_near_zero(all.col);
    }
    if (!options.near_zero) {
      options.partition = partition_of(Order::row_panels, case_.queries, case_.keys, sizeof(T));
    }
    options.largest_value = largest_value();
    options.entropies = true;
    options.column_sums = true;
    options.sink = case_.sink;
    for (Index p = 0; p < processes; ++p) {
      options.first_slot = p * options.partition.slots / processes;
      options.last_slot = (p + 1) * options.partition.slots / processes;
      add_in_key_blocks(options, step, 1 + static_cast<int>(p % 2), all);
    }
    return all;
  }

 private:
  void add_in_key_blocks(typename KeyBlocks<T>::Options options, Index step, int threads,
                         BlockedResult<T>& all) const {
    const RowRange own{options.partition.first_line(options.first_slot),
                       options.partition.first_line(options.last_slot)};
    BlockedResult<T> found = room(own.last - own.first);
    options.out = out_of(found);
    auto blocks = KeyBlocks<T>::make(options);
    const ScoreBounds bounds = bounds_of_whole();
    for (int round = 0; round < blocks->rounds(); ++round) {
      each_block(own, step, bounds, [&](const Part& part) {
        blocks->add(round, part.range.col0, part.scores->scores(), part.arrays.v, threads);
        blocks = resumed(std::move(blocks), options, round, part);
      });
    }
    if (options.hybrid != 1) found.unas_row = found.row;
    blocks->complete(found.row, found.unas_row);
    for (auto* row : {&found.row, &found.unas_row}) {
      std::replace(row->begin(), row->end(), -infinity, case_.sink);
    }
    CHECK(blocks->shows_weights());
    each_block(own, step, bounds, [&](const Part& part) {
      const Buffer<double> sums =
          blocks->show(part.range.col0, part.scores->scores(), part.arrays.v, threads);
      double* const total = all.col_sum.data() + part.range.col0;
      for (Index n = 0; n < sums.size(); ++n) total[n % part.range.cols] += sums[n];
      const int round = blocks->rounds();
      blocks = resumed(std::move(blocks), options, round, part);
    });
    blocks->finish(found.entropy);
    all.out.insert(all.out.end(), found.out.begin(), found.out.end());
    all.row.insert(all.row.end(), found.row.begin(), found.row.end());
    all.unas_row.insert(all.unas_row.end(), found.unas_row.begin(), found.unas_row.end());
    all.entropy.insert(all.entropy.end(), found.entropy.begin(), found.entropy.end());
  }

  QueryBlocks<T> resumed(QueryBlocks<T>& before, const typename QueryBlocks<T>::Options& options,
                         bool complete, const Part& part) const {
    QueryBlocks<T> next(options);
    next.resume(complete, part.scores->scores());
    copy_state(before.state(complete), next.state(complete));
    return next;
  }

  std::unique_ptr<KeyBlocks<T>> resumed(std::unique_ptr<KeyBlocks<T>> before,
                                        const typename KeyBlocks<T>::Options& options, int round,
                                        const Part& part) const {
    if (!resumes_ || options.out.rows < 96) return before;
    auto next = KeyBlocks<T>::make(options);
    next->resume(round, part.scores->scores(), part.arrays.v);
    copy_state(before->state(round), next->state(round));
    return next;
  }

  // Joined from those of parts.
  ScoreBounds bounds_of_whole() const {
    return bounds_of_blocks(row_tile_partition(case_.queries, case_.keys), 256);
  }

  BlockedResult<T> room(Index queries) const {
    BlockedResult<T> found;
    found.out.resize(static_cast<std::size_t>(queries * case_.v_head_dim));
    found.row.resize(static_cast<std::size_t>(queries));
    found.entropy.resize(static_cast<std::size_t>(queries));
    return found;
  }
  MatrixView<T> out_of(BlockedResult<T>& found) const {
    return {found.out.data(), static_cast<Index>(found.row.size()), case_.v_head_dim};
  }

  static constexpr double hybrid = 0.3;
  bool resumes_;
};

// Calls in_blocks(processes, step), which must find `want` wherever the head is cut.
template <class T, class InBlocks>
void check_cuts(const BlockedResult<T>& want, std::initializer_list<Index> processes,
                const InBlocks& in_blocks) {
  for (const Index count : processes) {
    for (const Index step : sanitized ? std::vector{1024} : std::vector{512, 1024, 4096}) {
      CAPTURE(count);
      CAPTURE(step);
      const BlockedResult<T> got = in_blocks(count, step);
      CHECK(got.col == want.col);
      CHECK(got.row == want.row);
      CHECK(got.unas_row == want.unas_row);
      CHECK(got.out == want.out);
      CHECK(got.entropy == want.entropy);
      CHECK(got.col_sum == want.col_sum);
    }
  }
}

template <class T>
void check_key_blocks(const BlockedShape& of, Random& random, bool resumes = false) {
  const BlockedProblem<T> problem(of, random, resumes);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas}) {
    CAPTURE(static_cast<int>(scheme));
    check_cuts(problem.at_once(scheme, true), {1, 2, 5}, [&](Index processes, Index step) {
      return problem.in_key_blocks(scheme, processes, step);
    });
  }
}

template <class T>
void check_query_blocks(const BlockedShape& of, Random& random, bool resumes = false) {
  const BlockedProblem<T> problem(of, random, resumes);
  for (const Scheme scheme : {Scheme::dnas, Scheme::hnas}) {
    CAPTURE(static_cast<int>(scheme));
    check_cuts(problem.at_once(scheme, false), {1, 2, 3}, [&](Index processes, Index step) {
      return problem.in_query_blocks(scheme, processes, step);
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE("keys in blocks have the bits of all at once", T, float, double) {
  Random random(301);
  for (const double spread : {0.5, 4.0}) {
    CAPTURE(spread);
    check_key_blocks<T>({.keys = 1300, .spread = spread}, random);
    check_key_blocks<T>({.queries = 241, .keys = 1, .spread = spread}, random);
    check_key_blocks<T>({.queries = 7, .keys = 900, .spread = spread, .values = 1e9}, random);
    check_key_blocks<T>({.queries = 289, .keys = 513, .spread = spread, .values = 1e9}, random);
    check_key_blocks<T>({.depth = 64, .v_head_dim = 40, .spread = spread, .sink = 0.7}, random);
  }
}

TEST_CASE_TEMPLATE("keys in blocks with masks, biases and positions", T, float, double) {
  Random random(302);
  for (const double spread : {0.5, 4.0}) {
    CAPTURE(spread);
    check_key_blocks<T>({.spread = spread, .causal = true}, random);
    check_key_blocks<T>({.spread = spread, .causal = true, .window = Window::nearer_than(70)},
                        random);
    check_key_blocks<T>({.spread = spread, .bias = true, .mask = true}, random);
    check_key_blocks<T>({.spread = spread, .mask = true, .alibi = true, .sink = -1}, random);
  }
}

TEST_CASE_TEMPLATE("what goes on from the state after a block has the same bits", T, float,
                   double) {
  Random random(304);
  for (const double spread : {0.5, 4.0}) {
    CAPTURE(spread);
    check_key_blocks<T>(
        {.queries = 1500, .spread = spread, .mask = true, .sink = 0.7, .values = 1e9}, random,
        true);
    check_query_blocks<T>({.queries = 1500, .spread = std::min(spread, 2.5)}, random, true);
  }
}

TEST_CASE_TEMPLATE("queries in blocks have the bits of all at once", T, float, double) {
  Random random(303);
  for (BlockedShape shape :
       {BlockedShape{.queries = 1600, .keys = 1500, .v_head_dim = 20},
        BlockedShape{.queries = 40, .keys = 700},
        BlockedShape{.queries = 1048, .keys = 3, .values = 1e9},
        BlockedShape{.queries = 1048, .keys = 640, .alibi = true, .sink = 0.3}}) {
    for (const double spread : {0.5, 2.5}) {
      CAPTURE(shape.queries);
      CAPTURE(spread);
      shape.spread = spread;
      check_query_blocks<T>(shape, random);
    }
  }
}

TEST_CASE("the bounds of parts join to those of the whole") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const ScoreBounds a{1, 2, 3, 4, 5};
  const ScoreBounds b{5, 4, 3, 2, 1};
  const ScoreBounds joined = a.joined(b);
  CHECK(joined.intermediate == 5);
  CHECK(joined.energy == 4);
  CHECK(joined.relative == 3);
  CHECK(joined.bias == 4);
  CHECK(joined.preference == 5);
  CHECK(std::isnan(a.joined({nan, 0, 0, 0, 0}).intermediate));
  CHECK(std::isnan(ScoreBounds{nan, 0, 0, 0, 0}.joined(a).intermediate));
}
