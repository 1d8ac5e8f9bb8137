// AttentionPlan::gradients_from: gradients that start from known results.

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "plan_problem.hpp"
#include "same_bits.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// A batch with grouped heads, and if asked for padding and a sink.
template <class T>
struct Known {
  Batch<T> batch;
  AttentionOptions options;
  std::vector<Index> query_lengths, key_lengths;
  std::vector<double> sink;
  std::vector<T> out;
  std::vector<double> row, col, unas_row;

  AttentionInputs<T> inputs() const {
    AttentionInputs<T> in = batch.inputs();
    const Index batches = batch.sizes.batches;
    if (!query_lengths.empty()) {
      in.query_length = {query_lengths.data(), {batches}};
      in.key_length = {key_lengths.data(), {batches}};
    }
    if (!sink.empty()) in.sink = {sink.data(), {batch.sizes.query_heads}};
    return in;
  }

  AttentionResults<T> run(AttentionPlan<T>& plan) {
    const BatchSizes& s = batch.sizes;
    const auto queries = static_cast<std::size_t>(s.problems() * s.queries);
    out.resize(queries * static_cast<std::size_t>(s.v_head_dim));
    row.resize(queries);
    unas_row.resize(queries);
    col.resize(static_cast<std::size_t>(s.problems() * s.keys));
    AttentionOutputs<T> outputs;
    outputs.out = {out.data(), plan.out_shape()};
    outputs.row_potential = {row.data(), plan.query_shape()};
    outputs.col_potential = {col.data(), plan.key_shape()};
    const bool mixture = options.scheme == Scheme::hnas;
    if (mixture) outputs.unas_row_potential = {unas_row.data(), plan.query_shape()};
    plan.run(inputs(), outputs);
    AttentionResults<T> results;
    results.out = outputs.out;
    results.row_potential = outputs.row_potential;
    results.col_potential = outputs.col_potential;
    if (mixture) results.unas_row_potential = outputs.unas_row_potential;
    return results;
  }
};

template <class T>
struct Found {
  std::vector<T> q, k, v, bias, hybrid;

  explicit Found(const Batch<T>& batch)
      : q(batch.q.size()),
        k(batch.k.size()),
        v(batch.v.size()),
        bias(batch.bias.size()),
        hybrid(1) {}

  AttentionGradients<T> targets(const AttentionInputs<T>& in, bool mixture) {
    AttentionGradients<T> to;
    to.q = {q.data(), in.q.shape};
    to.k = {k.data(), in.k.shape};
    to.v = {v.data(), in.v.shape};
    to.bias = {bias.data(), in.bias.shape};
    if (mixture) to.hybrid = {hybrid.data(), {}};
    return to;
  }
  bool operator==(const Found&) const = default;
};

}  // namespace

TEST_CASE_TEMPLATE("gradients from known results have the same bits", T, float, double) {
  Random random(411);
  for (const BatchSizes& sizes :
       {BatchSizes{2, 4, 2, 5, 7, 3, 2}, BatchSizes{1, 2, 2, 65, 33, 8, 4},
        BatchSizes{2, 2, 1, 280, 300, 4, 3}, BatchSizes{1, 1, 1, 1, 1, 1, 1}}) {
    for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas}) {
      for (const bool padded : {false, true}) {
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(sizes.queries);
        CAPTURE(padded);
        Known<T> known{
            {sizes, random, true}, attention_options(scheme), {}, {}, {}, {}, {}, {}, {}};
        if (padded) {
          known.query_lengths = {sizes.queries - 1, sizes.queries};
          known.key_lengths = {sizes.keys, sizes.keys - 1};
          known.query_lengths.resize(static_cast<std::size_t>(sizes.batches));
          known.key_lengths.resize(static_cast<std::size_t>(sizes.batches));
          known.sink.assign(static_cast<std::size_t>(sizes.query_heads), 0.3);
          known.options.causal = Causal::top_left;
        }
        const AttentionInputs<T> in = known.inputs();
        AttentionPlan<T> plan(shapes_of(in), known.options, 2);
        const bool mixture = scheme == Scheme::hnas;
        Found<T> want(known.batch);
        plan.gradients(in, known.batch.upstream(), want.targets(in, mixture));
        const AttentionResults<T> results = known.run(plan);
        Found<T> got(known.batch);
        plan.gradients_from(in, results, known.batch.upstream(), got.targets(in, mixture));
        CHECK(got == want);
      }
    }
  }
}

TEST_CASE("gradients from results that do not fit are refused") {
  Random random(412);
  const BatchSizes sizes{2, 4, 2, 5, 7, 3, 2};
  const auto refusal = [&](Scheme scheme, const auto& spoil) {
    Known<double> known{
        {sizes, random, false}, attention_options(scheme), {}, {}, {}, {}, {}, {}, {}};
    const AttentionInputs<double> in = known.inputs();
    AttentionPlan<double> plan(shapes_of(in), known.options, 1);
    AttentionResults<double> results = known.run(plan);
    spoil(results);
    Found<double> found(known.batch);
    AttentionGradients<double> to;
    to.q = {found.q.data(), in.q.shape};
    return thrown_error([&] { plan.gradients_from(in, results, known.batch.upstream(), to); });
  };
  const auto nothing = [](AttentionResults<double>&) {};
  CHECK(refusal(Scheme::sinkhorn, nothing).failure() == Failure::usage);
  const Error missing = refusal(Scheme::dnas, [](auto& results) { results.col_potential = {}; });
  CHECK(missing.failure() == Failure::input);
  CHECK(std::string(missing.what()).find("col_potential") == 0);
  const Error wrong = refusal(Scheme::unas, [](auto& results) { results.out.shape.back() = 3; });
  CHECK(std::string(wrong.what()).find("out has shape") == 0);
  for (const bool of_out : {false, true}) {
    const Error empty = refusal(Scheme::unas, [&](auto& results) {
      (of_out ? results.out.data : results.row_potential.data) = nullptr;
    });
    CHECK(empty.failure() == Failure::input);
    CHECK(std::string(empty.what()).find("has no data") != std::string::npos);
  }
  const Error share = refusal(Scheme::hnas, [](auto& results) { results.unas_row_potential = {}; });
  CHECK(std::string(share.what()).find("unas_row_potential") == 0);
}
