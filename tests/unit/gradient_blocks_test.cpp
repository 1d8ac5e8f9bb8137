// Gradients of keys whose queries come in blocks: the bits of all at once.

#include "gradient/gradient_blocks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "blocked_head.hpp"
#include "gradient/adjoints.hpp"
#include "gradient/folded_rows.hpp"
#include "gradient/hybrid_deltas.hpp"
#include "gradient/output_centre.hpp"
#include "kernel/few_rows.hpp"
#include "pass/output.hpp"
#include "pass/weight_blocks.hpp"
#include "same_bits.hpp"
#include "sanitized.hpp"
#include "scheme/gradient.hpp"
#include "scheme/scheme.hpp"
#include "score/centred_pair.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
struct VectorGradients {
  std::vector<T> q, k, v;
};

// What CentredValues does.
enum class Centring { none, centred, computed_again };

template <class T>
class BlockedGradient : BlockedHead<T> {
  using Base = BlockedHead<T>;
  using Base::bounds_of_blocks;
  using Base::case_;
  using Base::part_of;
  using Base::recipe_;
  using Base::whole;
  using typename Base::Part;

 public:
  BlockedGradient(const BlockedShape& of, const SchemeOptions& options, Random& random)
      : Base(of, random), options_(options) {
    grad_out_ = Base::normal(of.queries * of.v_head_dim, 1, random);
    out_.resize(grad_out_.size());
    const Part all = whole();
    Output<T> output(all.arrays.v, {out_.data(), of.queries, of.v_head_dim});
    found_ = attend<T>(all.scores->scores(), options_, {&output}, 2);
  }

  VectorGradients<T> at_once() const {
    const Part all = whole();
    REQUIRE_FALSE(is_small(all.scores->scores()));
    VectorGradients<T> found = room(case_.keys);
    Forward<T> forward;
    forward.scores = &all.scores->scores();
    forward.options = options_;
    forward.attention = &found_;
    forward.v = all.arrays.v;
    const OutputRows<T> queries = rows(0, case_.queries);
    forward.out = queries.out;
    forward.grad_out = queries.grad_out;
    GradientTargets<T> targets;
    targets.v = {found.v.data(), case_.keys, case_.v_head_dim};
    const auto energy = sink(all, found.q.data(), found.k.data());
    targets.energies = {energy.get()};
    differentiate(forward, targets, 2);
    return found;
  }

  Centring centring() const { return centring_; }

  // Every process has the keys of neighbouring slots, and all take the queries by blocks of `step`.
  // If it resumes, other objects go on after every block.
  VectorGradients<T> in_blocks(Index processes, Index step, bool resumes) const {
    resumes_ = resumes;
    look(step);
    const Partition partition =
        GradientBlocks<T>::partition(options_.scheme, true, case_.queries, case_.keys);
    std::vector<Process> all(static_cast<std::size_t>(processes));
    const T largest_value = begin(partition, all);
    const auto largest_grad_out = kernel::largest_magnitude(rows(0, case_.queries).grad_out);
    const bool folds =
        folds_rows(options_, whole().scores->scores().near_zero(),
                   static_cast<double>(largest_grad_out), static_cast<double>(largest_value));
    for (std::size_t p = 0; p < all.size(); ++p) {
      Process& own = all[p];
      own.blocks.emplace(own.options);
      own.keys = {own.v, g_of(own.blocks->keys()), own.grad_v(), folds};
      own.blocks->use(own.keys);
      if (!own.blocks->needs_columns()) continue;
      for (Index row = 0; row < case_.queries; row += step) {
        const Part part = part_of(own.blocks->keys(), row, step, bounds_);
        own.blocks->add_columns(block(part), 1 + static_cast<int>(p % 2));
        if (resumes) own.resume();
      }
    }
    VectorGradients<T> found = room(0);
    for (Index row = 0; row < case_.queries; row += step) add_block(row, step, all, found.q);
    for (Process& own : all) {
      if (own.by_key) own.by_key->finish();
      const Index extra = own.blocks->own_keys().first - own.blocks->keys().first;
      found.k.insert(found.k.end(), own.k.begin() + extra * case_.depth, own.k.end());
      found.v.insert(found.v.end(), own.gathered_v.begin() + extra * case_.v_head_dim,
                     own.gathered_v.end());
    }
    return found;
  }

 private:
  struct Process {
    typename GradientBlocks<T>::Options options;
    std::optional<GradientBlocks<T>> blocks;
    typename GradientBlocks<T>::Keys keys;
    Buffer<T> used, centred;
    MatrixView<const T> v;
    std::vector<T> k, gathered_v;
    std::unique_ptr<GradientSink<T>> by_key;

    MatrixView<T> grad_v() { return {gathered_v.data(), v.rows, v.cols}; }

    void resume() {
      const std::span<std::byte> sums = blocks->column_sums().pieces.front();
      const std::vector<std::byte> sums_before(sums.begin(), sums.end());
      const std::vector<T> before = gathered_v;
      blocks.emplace(options);
      blocks->use(keys);
      std::copy(sums_before.begin(), sums_before.end(),
                blocks->column_sums().pieces.front().begin());
      std::copy(before.begin(), before.end(), gathered_v.begin());
    }
  };

  OutputRows<T> rows(Index first, Index count) const {
    const auto view = [&](const std::vector<T>& of) {
      return MatrixView<const T>(of.data() + first * case_.v_head_dim, count, case_.v_head_dim);
    };
    return {view(out_), view(grad_out_),
            std::span(found_.potentials.row)
                .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count))};
  }

  std::span<const double> g_of(RowRange keys) const {
    if (is_softmax(options_.scheme)) return {};
    return std::span(found_.potentials.col)
        .subspan(static_cast<std::size_t>(keys.first),
                 static_cast<std::size_t>(keys.last - keys.first));
  }

  std::unique_ptr<GradientSink<T>> sink(const Part& part, T* grad_q, T* grad_k) const {
    const MatrixView<T> q(grad_q, part.arrays.q.rows, part.arrays.q.cols);
    const MatrixView<T> k(grad_k, part.arrays.k.rows, part.arrays.k.cols);
    return recipe_.energy->differentiate(part.arrays.energy_arguments(recipe_.scale, 1),
                                         {q, k, {}});
  }

  VectorGradients<T> room(Index keys) const {
    VectorGradients<T> found;
    found.q.resize(static_cast<std::size_t>(case_.queries * case_.depth));
    found.k.resize(static_cast<std::size_t>(keys * case_.depth));
    found.v.resize(static_cast<std::size_t>(keys * case_.v_head_dim));
    return found;
  }

  // What must be known of the whole, from parts of the queries: their bounds, the centre and δ.
  void look(Index step) const {
    bounds_ = bounds_of_blocks(row_tile_partition(case_.queries, case_.keys), step);
    centre_ = OutputCentre(case_.v_head_dim);
    const auto each = [&](const auto& body) {
      for (Index row = 0; row < case_.queries; row += step) {
        body(rows(row, std::min(step, case_.queries - row)));
      }
    };
    each([&](const OutputRows<T>& part) { centre_.add(part); });
    centre_.complete();
    distances_ = {};
    each([&](const OutputRows<T>& part) { distances_.join(centre_.distances(part)); });
  }

  // Centres the values and δ; returns the largest of the former.
  T begin(const Partition& partition, std::vector<Process>& all) const {
    const auto processes = static_cast<Index>(all.size());
    const Part one = whole();
    const auto queries_of_key = std::span(found_.allowed.queries_of_key);
    T largest = 0;
    for (std::size_t p = 0; p < all.size(); ++p) {
      Process& own = all[p];
      const auto slot = [&](std::size_t of) {
        return static_cast<Index>(of) * partition.slots / processes;
      };
      own.options = {partition, slot(p), slot(p + 1), options_.scheme, true, options_.hybrid};
      const RowRange keys = GradientBlocks<T>(own.options).keys();
      const Index count = keys.last - keys.first;
      own.v = values_in_use<T>(one.arrays.v.row_range(keys.first, count),
                               queries_of_key.subspan(static_cast<std::size_t>(keys.first),
                                                      static_cast<std::size_t>(count)),
                               own.used);
      own.k.resize(static_cast<std::size_t>(count * case_.depth));
      own.gathered_v.resize(static_cast<std::size_t>(count * case_.v_head_dim));
      largest = std::max(largest, kernel::largest_magnitude(own.v));
    }
    const bool centres = case_.sink == no_sink && centre_.centres(distances_, largest);
    OutputRows<T> queries = rows(0, case_.queries);
    Buffer<T> out(queries.out.rows * queries.out.cols);
    centring_ = Centring::none;
    if (centres) {
      centring_ = Centring::centred;
      queries.out = centred(queries.out, centre_.mean(), out);
      largest = 0;
      for (Process& own : all) {
        own.centred = Buffer<T>(own.v.rows * own.v.cols);
        own.v = centred(own.v, centre_.mean(), own.centred);
        largest = std::max(largest, kernel::largest_magnitude(own.v));
      }
      if (centre_.hides(distances_)) {
        centring_ = Centring::computed_again;
        make_output(processes, largest, {mixture(), true}, out);
      }
    }
    delta_ = inner_products(queries.grad_out, queries.out);
    if (is_mixture()) find_deltas_of_parts(processes, largest);
    return largest;
  }

  bool is_mixture() const { return options_.scheme == Scheme::hnas; }

  // Weights: their potentials by query, and whether those of the keys are subtracted.
  struct Weights {
    QueryPotentials of_queries;
    bool with_g = false;
  };

  QueryPotentials mixture() const {
    const Potentials& found = found_.potentials;
    if (!is_mixture()) return {found.row};
    return {found.row, found.unas_row, options_.hybrid};
  }

  void find_deltas_of_parts(Index processes, T largest) const {
    const OutputRows<T> queries = rows(0, case_.queries);
    Buffer<T> out(queries.out.rows * queries.out.cols);
    const bool dnas = HybridDeltas::makes_dnas(options_.hybrid);
    const Potentials& found = found_.potentials;
    make_output(processes, largest, {{dnas ? found.row : found.unas_row}, dnas}, out);
    const MatrixView<const T> made(out.data(), queries.out.rows, queries.out.cols);
    HybridDeltas deltas =
        hybrid_deltas(options_.hybrid, inner_products(queries.grad_out, made), delta_);
    delta_ = std::move(deltas.dnas);
    unas_delta_ = std::move(deltas.unas);
  }

  // The output of the values as they are now, of each process for some of the queries.
  void make_output(Index processes, T largest, const Weights& weights, Buffer<T>& out) const {
    for (Index p = 0; p < processes; ++p) {
      const Index first = p * case_.queries / processes;
      const Index count = (p + 1) * case_.queries / processes - first;
      const auto own = [&](std::span<const double> of) {
        return of.empty()
                   ? of
                   : of.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      };
      const QueryPotentials& all = weights.of_queries;
      std::optional<WeightBlocks<T>> blocks;
      const auto begin = [&](bool begins) {
        blocks.emplace(
            QueryPotentials{own(all.f), own(all.unas_f), all.hybrid},
            MatrixView<T>(out.data() + first * case_.v_head_dim, count, case_.v_head_dim), largest,
            begins);
      };
      begin(true);
      for (Index col = 0; col < case_.keys; col += pass_tile_length) {
        const Index cols = std::min(pass_tile_length, case_.keys - col);
        const Part part(*this, {first, count, col, cols}, bounds_);
        const auto at = [&](const auto& of) {
          return std::span(of).subspan(static_cast<std::size_t>(col),
                                       static_cast<std::size_t>(cols));
        };
        Buffer<T> used, centred_v(cols * case_.v_head_dim);
        auto v = values_in_use<T>(part.arrays.v, at(found_.allowed.queries_of_key), used);
        if (centring_ != Centring::none) v = centred(v, centre_.mean(), centred_v);
        blocks->add(part.scores->scores(), v,
                    weights.with_g ? at(found_.potentials.col) : std::span<const double>(),
                    1 + static_cast<int>(p % 2));
        if (resumes_ && count >= 96) begin(false);
      }
      blocks->finish();
    }
  }

  typename GradientBlocks<T>::Block block(const Part& part) const {
    const OutputRows<T> queries = rows(part.range.row0, part.range.rows);
    const auto own = [&](std::span<const double> of) {
      return of.empty() ? of
                        : of.subspan(static_cast<std::size_t>(part.range.row0),
                                     static_cast<std::size_t>(part.range.rows));
    };
    return {&part.scores->scores(),          queries.grad_out, queries.f, own(delta_),
            own(found_.potentials.unas_row), own(unas_delta_)};
  }

  // Sums by query go from one process to the next.
  void add_block(Index row, Index step, std::vector<Process>& all, std::vector<T>& grad_q) const {
    const Index count = std::min(step, case_.queries - row);
    std::vector<T> totals(static_cast<std::size_t>(count * case_.depth));
    for (Process& own : all) {
      const Index slots = own.blocks->slots();
      if (slots == 0) continue;
      const Part part = part_of(own.blocks->keys(), row, step, bounds_);
      std::vector<T> sums(totals.size());
      const auto by_query = sink(part, sums.data(), nullptr);
      by_query->start(slots);
      if (own.by_key && !resumes_) {
        own.by_key->go_on(part.arrays.q);
      } else {
        const std::vector<T> before = own.k;
        own.by_key = sink(part, nullptr, own.k.data());
        own.by_key->start(slots);
        std::copy(before.begin(), before.end(), own.k.begin());
      }
      own.blocks->add(block(part), {by_query.get(), own.by_key.get()}, 2);
      sums = totals;
      if (resumes_) own.resume();
      for (Index slot = 0; slot < slots; ++slot) by_query->merge(slot, {});
      totals = sums;
      if (own.blocks->own_keys().last == case_.keys) by_query->finish();
      std::copy(sums.begin(), sums.end(), grad_q.begin() + row * case_.depth);
    }
  }

  SchemeOptions options_;
  std::vector<T> grad_out_, out_;
  Attention found_;
  mutable ScoreBounds bounds_;
  mutable OutputCentre centre_{0};
  mutable OutputCentre::Distances distances_;
  mutable Centring centring_ = Centring::none;
  mutable PooledVector<double> delta_, unas_delta_;
  mutable bool resumes_ = false;
};

template <class T>
Centring check_gradient_blocks(const BlockedShape& of, const SchemeOptions& options,
                               Random& random) {
  CAPTURE(static_cast<int>(options.scheme));
  CAPTURE(options.hybrid);
  SchemeOptions with_sink = options;
  with_sink.sink = of.sink;
  const BlockedGradient<T> problem(of, with_sink, random);
  const VectorGradients<T> want = problem.at_once();
  struct Cut {
    Index processes, step;
    bool resumes;
  };
  const std::vector<Cut> cuts = {{2, 768, true}, {1, 256, false}, {3, 4096, false}};
  for (const Cut& cut : std::span(cuts).first(sanitized ? 1 : cuts.size())) {
    CAPTURE(cut.processes);
    const VectorGradients<T> got = problem.in_blocks(cut.processes, cut.step, cut.resumes);
    CHECK(same_bits(got.q, want.q));
    CHECK(same_bits(got.k, want.k));
    CHECK(same_bits(got.v, want.v));
  }
  return problem.centring();
}

// Of hnas either part is made, and the other follows.
std::vector<SchemeOptions> blocked_schemes() {
  std::vector<SchemeOptions> all(4);
  all[1].scheme = Scheme::dnas;
  all[2].scheme = all[3].scheme = Scheme::hnas;
  all[2].hybrid = 0.3;
  all[3].hybrid = 0.8;
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("gradients of queries in blocks have the bits of all at once", T, float,
                   double) {
  Random random(305);
  for (const SchemeOptions& scheme : blocked_schemes()) {
    for (const double spread : {0.5, 4.0}) {
      CAPTURE(spread);
      check_gradient_blocks<T>({.queries = 300, .keys = 1700, .spread = spread}, scheme, random);
      check_gradient_blocks<T>({.queries = 1048, .keys = 65, .spread = spread}, scheme, random);
      if (sanitized) continue;
      check_gradient_blocks<T>(
          {.queries = 793, .keys = 1029, .depth = 64, .v_head_dim = 40, .spread = spread}, scheme,
          random);
    }
  }
}

TEST_CASE_TEMPLATE("gradients of queries in blocks, of values with a common part", T, float,
                   double) {
  Random random(307);
  for (const SchemeOptions& scheme : blocked_schemes()) {
    const auto centring = [&](const BlockedShape& shape) {
      return check_gradient_blocks<T>(shape, scheme, random);
    };
    CHECK(centring({.keys = 1601, .spread = 4}) == Centring::none);
    CHECK(centring({.keys = 1601, .spread = 4, .common = 6}) == Centring::centred);
    CHECK(centring({.keys = 1601, .mask = true, .values = 0.1, .common = 9}) ==
          Centring::computed_again);
    CHECK(centring({.causal = true, .values = 1e-3, .common = 2}) == Centring::computed_again);
  }
}

TEST_CASE_TEMPLATE("gradients of queries in blocks with masks, biases and positions", T, float,
                   double) {
  Random random(306);
  for (const SchemeOptions& scheme : blocked_schemes()) {
    const auto check = [&](BlockedShape shape) {
      shape.queries = 569;
      shape.keys = 1100;
      check_gradient_blocks<T>(shape, scheme, random);
    };
    check({.causal = true});
    check({.causal = true, .window = Window::nearer_than(70), .softcap = 2.0});
    check({.spread = 4, .bias = true, .mask = true});
    check({.alibi = true, .sink = 0.5});
  }
}
