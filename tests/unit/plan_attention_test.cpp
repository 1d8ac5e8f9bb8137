// AttentionPlan: forward results, head by head and against the reference.

#include "attnkit/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "plan_problem.hpp"
#include "random_problem.hpp"
#include "repeats.hpp"
#include "scheme_check.hpp"
#include "score/relative_bias.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

constexpr const char* product_names[] = {"dot", "scaled-dot", "gaussian"};

}  // namespace

TEST_CASE_TEMPLATE("a plan computes every head as attend does, to the last bit", T, float, double) {
  Random random(301);
  const BatchSizes all_sizes[] = {{2, 4, 2, 5, 7, 3, 2},
                                  {1, 1, 1, 1, 1, 1, 1},
                                  {1, 6, 3, 65, 129, 8, 5},
                                  {3, 2, 2, 33, 30, 16, 9},
                                  {1, 2, 1, 300, 513, 4, 3}};
  for (const BatchSizes& sizes : all_sizes) {
    for (const Scheme scheme : schemes_with_fenchel) {
      for (int n = 0; n < 3; ++n) {
        const bool terms = n != 1;
        Batch<T> batch(sizes, random, terms);
        // Queries before all keys count as 0.
        const Index hidden = n == 2 ? std::max<Index>(0, sizes.queries - sizes.keys) : 0;
        for (Index p = 0; p < sizes.problems(); ++p) {
          std::fill_n(batch.q.begin() + p * sizes.queries * sizes.depth, hidden * sizes.depth,
                      T{0});
        }
        AttentionOptions options = attention_options(scheme);
        options.energy = product_names[n];
        options.causal = n == 2 ? Causal::bottom_right : Causal::none;
        options.scale = n == 0 ? 0.7 : 1;
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(sizes.queries);
        CAPTURE(n);
        for (const int threads : {1, 3}) {
          AttentionPlan<T> plan(shapes_of(batch.inputs()), options, threads);
          Results<T> got(sizes, scheme == Scheme::hnas);
          plan.run(batch.inputs(), got.views);
          for (Index p = 0; p < sizes.problems(); ++p) {
            const SingleHead<T> want(batch, p, static_cast<EnergyKind>(n), options.scale,
                                     options.causal, fixed(scheme, 0.3, 3));
            CHECK(is_block(got.out, p, want.out));
            CHECK(is_block(got.weights, p, want.weights));
            CHECK(is_block(got.row, p, want.attention.potentials.row));
            CHECK(is_block(got.col, p, want.attention.potentials.col));
            CHECK(is_block(got.unas_row, p, want.attention.potentials.unas_row));
            CHECK(is_block(got.col_sum, p, want.col_sum));
            CHECK(is_block(got.row_entropy, p, want.row_entropy));
          }
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("an output that is asked for by itself", T, float, double) {
  Random random(302);
  const BatchSizes sizes{2, 2, 1, 40, 70, 6, 4};
  const Batch<T> batch(sizes, random, true);
  for (const Scheme scheme : schemes_with_fenchel) {
    AttentionOptions options = attention_options(scheme);
    options.energy = "scaled-dot";
    AttentionPlan<T> plan(shapes_of(batch.inputs()), options, 2);
    Results<T> got(sizes, false);
    AttentionOutputs<T> only;
    only.out = got.views.out;
    plan.run(batch.inputs(), only);
    for (Index p = 0; p < sizes.problems(); ++p) {
      const SingleHead<T> want(batch, p, EnergyKind::scaled_dot, 1, Causal::none,
                               fixed(scheme, 0.3, 3), true);
      CHECK(is_block(got.out, p, want.out));
    }
    CHECK(got.col_sum.front() == -7);  // not requested, hence not written
  }
}

// All terms at once, each broadcasting in its own way.
TEST_CASE_TEMPLATE("terms that broadcast agree with the reference", T, float, double) {
  Random random(303);
  for (const Scheme scheme : schemes_with_fenchel) {
    const BatchSizes sizes{2, 4, 2, 21, 34, 5, 3};
    const Batch<T> batch(sizes, random, true);
    const auto table = random_numbers<T>(8 * sizes.query_heads, random);
    std::vector<T> preference = random_numbers<T>(sizes.keys, random);
    for (T& u : preference) u = chance(random, 0.1) ? T{0} : std::abs(u);
    const std::vector<Index> lengths{30, 34};
    const std::vector<double> hybrids{0, 0.4, 1, 0.7};
    AttentionOptions options = attention_options(scheme);
    options.softcap = 2.0;
    options.window = Window::nearer_than(19);
    options.relative = RelativePositions::t5;
    options.energy = "dot";
    options.scale = 0.6;
    auto in = batch.inputs();
    in.rel_bias = {table.data(), {8, sizes.query_heads}};
    in.key_length = {lengths.data(), {2}};
    if (scheme == Scheme::fenchel) {
      options.alpha = 1.7;
      in.preference = {preference.data(), {sizes.keys}};
    }
    if (scheme == Scheme::hnas) in.hybrid = {hybrids.data(), {4}};
    AttentionPlan<T> plan(shapes_of(in), options, 2);
    Results<T> got(sizes, scheme == Scheme::hnas);
    const AttentionSummary summary = plan.run(in, got.views);
    Index empty_queries = 0;
    Index empty_keys = 0;
    for (Index p = 0; p < sizes.problems(); ++p) {
      const auto matrix = [](const auto* data, Index rows, Index cols) {
        reference::Matrix to(rows, cols);
        for (std::size_t n = 0; n < to.values.size(); ++n) {
          to.values[n] = static_cast<long double>(data[n]);
        }
        return to;
      };
      reference::Terms terms;
      terms.scale = options.scale * options.alpha;
      terms.softcap = 2;
      terms.window = Window::nearer_than(19);
      terms.bias = matrix(batch.bias.data() + batch.head_of(p) * sizes.queries * sizes.keys,
                          sizes.queries, sizes.keys);
      terms.mask = reference::Matrix(sizes.queries, sizes.keys);
      terms.preference = reference::Matrix(sizes.queries, sizes.keys, 1);
      terms.rel_bias = reference::Matrix(8, 1);
      for (Index i = 0; i < sizes.queries; ++i) {
        for (Index j = 0; j < sizes.keys; ++j) {
          // Without queries that are padding, padded keys are as masked ones.
          const bool padding = j >= lengths[static_cast<std::size_t>(batch.batch_of(p))];
          terms.mask(i, j) =
              padding ? 0
                      : batch.mask[static_cast<std::size_t>(batch.batch_of(p) * sizes.keys + j)];
          if (scheme == Scheme::fenchel) {
            terms.preference(i, j) =
                static_cast<long double>(preference[static_cast<std::size_t>(j)]);
          }
        }
      }
      for (Index b = 0; b < 8; ++b) {
        terms.rel_bias(b, 0) = static_cast<long double>(
            table[static_cast<std::size_t>(b * sizes.query_heads + batch.head_of(p))]);
      }
      const auto q = matrix(batch.q_of(p).data, sizes.queries, sizes.depth);
      const auto k = matrix(batch.k_of(p).data, sizes.keys, sizes.depth);
      const auto v = matrix(batch.v_of(p).data, sizes.keys, sizes.v_head_dim);
      const auto s = reference::scores(reference::energies(EnergyKind::dot, q, k), terms);
      const auto want =
          reference::attend(s, scheme, hybrids[static_cast<std::size_t>(batch.head_of(p))], 3);
      const double bound = tolerance<T>(largest_score(s));
      const auto part = [&](const auto& all, Index size) {
        return std::vector(all.begin() + p * size, all.begin() + (p + 1) * size);
      };
      CHECK(relative_error(part(got.weights, sizes.queries * sizes.keys), want.weights.values) <=
            bound);
      CHECK(relative_error(part(got.out, sizes.queries * sizes.v_head_dim),
                           reference::output(want.weights, v).values) <= bound);
      CHECK(relative_error(part(got.col_sum, sizes.keys), reference::column_sums(want.weights)) <=
            bound);
      check_potentials(part(got.row, sizes.queries), want.row, 4 * bound);
      // For softmax the reference returns 0 for every key.
      if (!is_softmax(scheme)) check_potentials(part(got.col, sizes.keys), want.col, 4 * bound);
      for (const long double f : want.row) empty_queries += std::isinf(f) ? 1 : 0;
      for (Index j = 0; j < sizes.keys; ++j) {
        bool open = false;
        for (Index i = 0; i < sizes.queries; ++i) open = open || !std::isinf(s(i, j));
        empty_keys += open ? 0 : 1;
      }
    }
    CHECK(summary.empty_queries() == empty_queries);
    CHECK(summary.empty_keys() + summary.padded_keys() == empty_keys);
    CHECK(summary.padded_keys() > 0);
    CHECK(summary.iterations() == (scheme == Scheme::sinkhorn ? 3 : 1));
  }
}

TEST_CASE_TEMPLATE("ready-made scores, and alibi by head", T, float, double) {
  Random random(304);
  const Index heads = 3, queries = 9, keys = 12;
  const auto scores = random_numbers<T>(2 * heads * queries * keys, random);
  AttentionInputs<T> in;
  in.scores = {scores.data(), {2, heads, queries, keys}};
  AttentionOptions options = attention_options(Scheme::dnas);
  options.relative = RelativePositions::alibi;
  options.scale = 0.5;
  AttentionPlan<T> plan(shapes_of(in), options, 1);
  CHECK(plan.leading() == Shape{2, heads});
  std::vector<double> col(static_cast<std::size_t>(2 * heads * keys));
  AttentionOutputs<T> outputs;
  outputs.col_potential = {col.data(), plan.key_shape()};
  plan.run(in, outputs);
  const auto slopes = alibi_slopes(heads);
  for (Index p = 0; p < 2 * heads; ++p) {
    const BroadcastMatrix<T> source(scores.data() + p * queries * keys, keys, 1);
    const auto energy = make_stored_energy<T>(source, queries, keys, 0.5);
    const auto relative =
        alibi_bias<T>(slopes[static_cast<std::size_t>(p % heads)], queries, keys, BandRule{});
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    terms.relative = &relative;
    const Attention want = attend<T>(Scores<T>(terms), fixed(Scheme::dnas), {}, 1);
    for (Index j = 0; j < keys; ++j) {
      CHECK(std::abs(col[static_cast<std::size_t>(p * keys + j)] -
                     want.potentials.col[static_cast<std::size_t>(j)]) <= tolerance<T>(8));
    }
  }
}

TEST_CASE_TEMPLATE("energies with operands of their own", T, float, double) {
  Random random(305);
  const Index queries = 17, keys = 11, dq = 4, dk = 3, hidden = 5;
  const auto q = random_numbers<T>(2 * queries * dq, random);
  const auto k = random_numbers<T>(2 * keys * dk, random);
  const auto w = random_numbers<T>(2 * dq * dk, random);
  const auto w1 = random_numbers<T>(hidden * (dq + dk), random);
  const auto w2 = random_numbers<T>(2 * hidden, random);
  AttentionInputs<T> in;
  in.q = {q.data(), {2, queries, dq}};
  in.k = {k.data(), {2, keys, dk}};
  for (const bool mlp : {false, true}) {
    AttentionOptions options = attention_options(Scheme::dnas);
    options.energy = mlp ? "mlp" : "bilinear";
    in.energy.clear();
    if (mlp) {
      in.energy["w1"] = {w1.data(), {hidden, dq + dk}};  // one for both heads
      in.energy["w2"] = {w2.data(), {2, hidden}};
    } else {
      in.energy["w"] = {w.data(), {2, dq, dk}};
    }
    AttentionPlan<T> plan(shapes_of(in), options, 2);
    std::vector<double> row(static_cast<std::size_t>(2 * queries));
    AttentionOutputs<T> outputs;
    outputs.row_potential = {row.data(), plan.query_shape()};
    plan.run(in, outputs);
    for (Index p = 0; p < 2; ++p) {
      const MatrixView<const T> q_of(q.data() + p * queries * dq, queries, dq);
      const MatrixView<const T> k_of(k.data() + p * keys * dk, keys, dk);
      MlpWeights<T> weights;
      weights.w1 = {w1.data(), hidden, dq + dk};
      weights.w2 = {w2.data() + p * hidden, static_cast<std::size_t>(hidden)};
      const auto energy =
          mlp ? make_mlp_energy<T>(q_of, k_of, weights, 1)
              : make_bilinear_energy<T>(q_of, k_of,
                                        MatrixView<const T>(w.data() + p * dq * dk, dq, dk), 1);
      typename Scores<T>::Terms terms;
      terms.energy = energy.get();
      const Attention want = attend<T>(Scores<T>(terms), fixed(Scheme::dnas), {}, 1);
      CHECK(is_block(row, p, want.potentials.row));
    }
  }
}

TEST_CASE_TEMPLATE("no queries, no keys, no heads", T, float, double) {
  Random random(306);
  for (const Scheme scheme : schemes_with_fenchel) {
    for (const BatchSizes& sizes :
         {BatchSizes{2, 2, 1, 0, 3, 2, 2}, BatchSizes{2, 2, 1, 3, 0, 2, 2},
          BatchSizes{0, 2, 1, 3, 3, 2, 2}}) {
      const Batch<T> batch(sizes, random, false);
      AttentionPlan<T> plan(shapes_of(batch.inputs()), attention_options(scheme), 2);
      Results<T> got(sizes, scheme == Scheme::hnas);
      const AttentionSummary summary = plan.run(batch.inputs(), got.views);
      CHECK(summary.problems.size() == static_cast<std::size_t>(sizes.problems()));
      CHECK(summary.empty_queries() == (sizes.keys == 0 ? sizes.problems() * sizes.queries : 0));
      CHECK(summary.empty_keys() == (sizes.queries == 0 ? sizes.problems() * sizes.keys : 0));
      if (sizes.keys > 0) continue;
      for (std::size_t n = 0; n + 1 < got.out.size(); ++n) CHECK(got.out[n] == 0);
      for (std::size_t n = 0; n + 1 < got.row.size(); ++n) CHECK(std::isinf(got.row[n]));
    }
  }
}
