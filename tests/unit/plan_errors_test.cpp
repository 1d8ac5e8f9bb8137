// Plans reject bad arguments with one clear line and the right category.

#include <doctest/doctest.h>

#include <functional>

#include "attnkit/attention.hpp"
#include "plan_problem.hpp"
#include "sanitized.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

AttentionShapes usual() {
  AttentionShapes shapes;
  shapes.q = Shape{2, 4, 5, 3};
  shapes.k = Shape{2, 2, 7, 3};
  shapes.v = Shape{2, 2, 7, 2};
  return shapes;
}

AttentionShapes projected() {
  AttentionShapes shapes;
  shapes.x = Shape{2, 5, 6};
  shapes.wq = Shape{4, 6, 3};
  shapes.wk = Shape{2, 6, 3};
  return shapes;
}

void refuses(const AttentionShapes& shapes, const AttentionOptions& options, Failure failure,
             const std::string& part, int threads = 1) {
  CAPTURE(part);
  const Error error = thrown_error([&] { AttentionPlan<float>(shapes, options, threads); });
  CHECK(error.failure() == failure);
  CAPTURE(std::string(error.what()));
  CHECK(contains(error.what(), part));
  CHECK(!contains(error.what(), "\n"));
}

}  // namespace

TEST_CASE("shapes that do not fit") {
  const auto with = [](const std::function<void(AttentionShapes&)>& change,
                       const std::string& part) {
    AttentionShapes shapes = usual();
    change(shapes);
    refuses(shapes, {}, Failure::input, part);
  };
  with([](auto& s) { s.q = Shape{3}; }, "q has shape (3), expected (..., queries, d)");
  with(
      [](auto& s) {
        s.q = Shape{2, 4, 5, 0};
      },
      "q has shape (2, 4, 5, 0): its last axis is empty");
  with([](auto& s) { s.k = Shape{7}; }, "k has shape (7), expected (..., keys, d)");
  with([](auto& s) { s.k = Shape{2, 2, 7, 4}; }, "k: last axis is 4, q has 3");
  with([](auto& s) { s.k = Shape{2, 3, 7, 3}; }, "q has 4 heads, k has 3");
  with([](auto& s) { s.k = Shape{3, 2, 7, 3}; }, "they do not broadcast");
  with([](auto& s) { s.v = Shape{2, 2, 6, 2}; }, "v: 6 keys, k has 7");
  with([](auto& s) { s.v = Shape{2, 3, 7, 2}; }, "v has leading axes (2, 3)");
  with(
      [](auto& s) {
        s.v = Shape{2, 4, 7, 2};
      },
      "v has leading axes (2, 4), k has (2, 2): keys and values need as many heads, or one");
  with([](auto& s) { s.mask = Shape{6}; }, "mask has shape (6), expected it to broadcast to");
  with([](auto& s) { s.mask = Shape{3, 1, 1, 7}; }, "mask has leading axes (3, 1)");
  with([](auto& s) { s.bias = Shape{4, 4, 7}; }, "bias has shape (4, 4, 7)");
  with([](auto& s) { s.key_length = Shape{3}; }, "key_length has leading axes");
  with([](auto& s) { s.key_length = Shape{2, 4, 1}; }, "key_length has shape (2, 4, 1)");
}

TEST_CASE("shapes of projections, tables and operands of energies") {
  const auto with = [](const std::function<void(AttentionShapes&)>& change,
                       const std::string& part) {
    AttentionShapes shapes = projected();
    change(shapes);
    refuses(shapes, {}, Failure::input, part);
  };
  with([](auto& s) { s.wq = Shape{4, 5, 3}; }, "wq: the axis before the last is 5, x has 6");
  with([](auto& s) { s.y = Shape{2, 8, 7}; }, "wk: the axis before the last is 6, y has 7");
  with([](auto& s) { s.wk = Shape{3, 6, 3}; }, "heads");
  with([](auto& s) { s.bq = Shape{4, 2}; }, "bq has shape (4, 2), expected (..., 3)");
  with([](auto& s) { s.wv = Shape{4, 6, 3}; }, "wv has leading axes (4), wk has (2): keys and");
  with([](auto& s) { s.bk = Shape{4, 3}; }, "bk has leading axes (4), wk has (2): keys and");
  with(
      [](auto& s) {
        s.wk = Shape{6, 3};
        s.bk = Shape{2, 3};
        s.wv = Shape{1, 6, 3};
        s.bv = Shape{4, 3};
      },
      "bv has leading axes (4), bk has (2): keys and");
  AttentionOptions t5;
  t5.relative = RelativePositions::t5;
  AttentionShapes shapes = usual();
  shapes.rel_bias = Shape{8, 3};
  refuses(shapes, t5, Failure::input, "rel_bias has shape (8, 3), expected (buckets, 4)");
  shapes.rel_bias = Shape{3, 4};
  refuses(shapes, t5, Failure::input, "rel_bias has 3 buckets, expected at least 4");
  AttentionOptions bilinear;
  bilinear.energy = "bilinear";
  refuses(usual(), bilinear, Failure::input, "the energy bilinear needs the operand w");
  shapes = usual();
  shapes.energy["w"] = Shape{3, 4};
  refuses(shapes, bilinear, Failure::input, "w is 3 x 4, expected 3 x 3 for q and k");
  shapes.energy["w"] = Shape{3, 3};
  shapes.energy["w1"] = Shape{3, 3};
  refuses(shapes, bilinear, Failure::usage, "the energy bilinear has no operand w1");
}

TEST_CASE("one head of keys or of values serves all of the other") {
  for (const auto& [k_heads, v_heads] : {std::pair<Index, Index>{1, 4}, {2, 1}, {1, 1}, {4, 4}}) {
    AttentionShapes shapes = usual();
    shapes.k = Shape{2, k_heads, 7, 3};
    shapes.v = Shape{2, v_heads, 7, 2};
    CHECK_NOTHROW(AttentionPlan<float>(shapes, {}, 1));
  }
}

TEST_CASE("options that do not fit together") {
  const auto with = [](const std::function<void(AttentionOptions&, AttentionShapes&)>& change,
                       const std::string& part) {
    AttentionShapes shapes = usual();
    AttentionOptions options;
    change(options, shapes);
    refuses(shapes, options, Failure::usage, part);
  };
  with([](auto& o, auto&) { o.energy = "chebyshev"; },
       "the energy is 'chebyshev', expected one of");
  with([](auto& o, auto&) { o.scale = std::numeric_limits<double>::infinity(); }, "scale");
  with([](auto& o, auto&) { o.hybrid = 1.5; }, "hybrid is not in [0, 1]");
  with([](auto& o, auto&) { o.hybrid = 0.3; }, "the option hybrid requires the scheme hnas");
  with([](auto& o, auto&) { o.tuning.kept_bytes = 8; }, "kept_bytes requires the scheme sinkhorn");
  with([](auto& o, auto&) { o.alpha = 2; }, "alpha requires the scheme fenchel");
  with([](auto& o, auto&) { o.softcap = 0.0; }, "soft cap");
  with([](auto& o, auto&) { o.window.right = -1; }, "window");
  with([](auto& o, auto&) { o.stopping.iterations = 3; }, "require the scheme sinkhorn");
  with([](auto& o, auto&) { o.relative = RelativePositions::t5; }, "need the operand rel_bias");
  with([](auto&, auto& s) { s.rel_bias = Shape{8, 4}; }, "rel_bias requires T5");
  with([](auto&, auto& s) { s.preference = Shape{7}; }, "preference requires the scheme fenchel");
  with([](auto&, auto& s) { s.hybrid = Shape{}; }, "hybrid requires the scheme hnas");
  with([](auto&, auto& s) { s.k.reset(); }, "q needs k");
  with([](auto&, auto& s) { s.scores = Shape{5, 7}; }, "only one of them is given");
  refuses({}, {}, Failure::usage, "nothing gives scores");
  refuses(usual(), {}, Failure::usage, "threads is 0", 0);
  AttentionShapes shapes = projected();
  shapes.v = Shape{2, 5, 2};
  refuses(shapes, {}, Failure::usage, "give wv in its place");
}

TEST_CASE("packed sequences that do not fit") {
  AttentionShapes packed = usual();
  packed.cu_seqlens_q = Shape{3};
  refuses(packed, {}, Failure::usage, "cu_seqlens_q and cu_seqlens_k go together");
  packed.cu_seqlens_k = Shape{4};
  refuses(packed, {}, Failure::usage, "have not the shape (sequences + 1)");
  packed.cu_seqlens_k = Shape{3};
  AttentionShapes padded = packed;
  padded.key_length = Shape{2};
  refuses(padded, {}, Failure::usage, "key_length has no effect on packed sequences");

  Random random(7);
  const Batch<float> batch(BatchSizes(), random, false);
  AttentionInputs<float> in = batch.inputs();
  std::vector<Index> starts_q = {0, 2, 5};
  std::vector<Index> starts_k = {0, 2, 7};
  in.cu_seqlens_q = {starts_q.data(), {3}};
  in.cu_seqlens_k = {starts_k.data(), {3}};
  std::vector<double> sums(static_cast<std::size_t>(batch.sizes.problems() * batch.sizes.keys));
  const auto refuses_run = [&](const AttentionOptions& options, Failure failure,
                               const std::string& part) {
    AttentionPlan<float> plan(shapes_of(in), options, 1);
    const Error error = thrown_error([&] {
      plan.run(in, {.col_sum = {sums.data(), plan.key_shape()}});
    });
    CHECK(error.failure() == failure);
    CHECK(contains(error.what(), part));
  };
  refuses_run(attention_options(Scheme::sinkhorn), Failure::usage,
              "as many keys as queries; sequence 1 has 5 keys and 3 queries");
  AttentionOptions alibi;
  alibi.relative = RelativePositions::alibi;
  alibi.causal = Causal::bottom_right;
  refuses_run(alibi, Failure::usage, "a bias of positions takes packed sequences only");
  starts_k.back() = 8;
  refuses_run({}, Failure::input,
              "cu_seqlens_k is 8 at [2], expected at most the number of keys, 7");
  starts_k = {0, 8, 7};
  refuses_run({}, Failure::input, "cu_seqlens_k is 7 at [2], expected at least 8");
}

TEST_CASE("values outside of an enumeration") {
  AttentionOptions options;
  options.scheme = static_cast<Scheme>(99);
  refuses(usual(), options, Failure::usage, "there is no such scheme");
  options = {};
  options.causal = static_cast<Causal>(99);
  refuses(usual(), options, Failure::usage, "there is no such alignment");
  options = {};
  options.relative = static_cast<RelativePositions>(99);
  refuses(usual(), options, Failure::usage, "there are no such relative positions");
}

TEST_CASE("arrays of a run") {
  Random random(331);
  const BatchSizes sizes{2, 2, 1, 3, 4, 2, 2};
  const Batch<double> batch(sizes, random, true);
  AttentionPlan<double> plan(shapes_of(batch.inputs()), {}, 1);
  Results<double> got(sizes, true);
  auto outputs = got.views;
  outputs.unas_row_potential = {};
  const auto message = [&](const AttentionInputs<double>& in, const AttentionOutputs<double>& out) {
    return std::string(thrown_error([&] { plan.run(in, out); }).what());
  };
  auto in = batch.inputs();
  in.q.shape[2] = 4;
  CHECK(contains(message(in, outputs), "q has shape (2, 2, 4, 2), the plan expects (2, 2, 3, 2)"));
  in = batch.inputs();
  in.bias = {};
  CHECK(contains(message(in, outputs), "bias is missing"));
  in = batch.inputs();
  in.scores = in.q;
  CHECK(contains(message(in, outputs), "scores is given, but the plan was made without it"));
  in = batch.inputs();
  in.v.data = nullptr;
  CHECK(contains(message(in, outputs), "v has no data"));
  auto wrong = outputs;
  wrong.out.shape.pop_back();
  CHECK(contains(message(batch.inputs(), wrong), "out has shape (2, 2, 3), expected (2, 2, 3, 2)"));
  CHECK(contains(message(batch.inputs(), got.views), "requires the scheme hnas"));
  std::vector<double> bad = batch.k;
  bad[5] = std::numeric_limits<double>::infinity();
  in = batch.inputs();
  in.k.data = bad.data();
  CHECK(contains(message(in, outputs), "k has inf at [0, 0, 2, 1], expected finite numbers"));
  bad = batch.bias;
  bad[3] = std::numeric_limits<double>::quiet_NaN();
  in = batch.inputs();
  in.bias.data = bad.data();
  CHECK(contains(message(in, outputs), "bias has nan at [0, 0, 3], expected finite numbers or"));
}

TEST_CASE("gradients that do not exist are refused") {
  Random random(332);
  const BatchSizes sizes{1, 2, 1, 3, 4, 2, 2};
  const Batch<double> batch(sizes, random, false);
  AttentionPlan<double> plan(shapes_of(batch.inputs()), {}, 1);
  std::vector<double> room(100);
  const auto message = [&](const AttentionGradients<double>& to, TensorView<const double> up) {
    return std::string(thrown_error([&] { plan.gradients(batch.inputs(), up, to); }).what());
  };
  AttentionGradients<double> to;
  to.bias = {room.data(), {4}};
  CHECK(contains(message(to, batch.upstream()), "the gradient of bias: the plan was made without"));
  to = {};
  to.hybrid = {room.data(), {}};
  CHECK(contains(message(to, batch.upstream()), "the gradient of hybrid"));
  to = {};
  to.q = {room.data(), {3, 2}};
  CHECK(contains(message(to, batch.upstream()), "the gradient of q has shape (3, 2), expected"));
  CHECK(contains(message({}, {room.data(), {2}}), "grad_out has shape (2), expected"));
  room[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK(contains(message({}, {room.data(), {1, 2, 3, 2}}), "grad_out has nan at [0, 0, 1, 1]"));
}

TEST_CASE("plans that do not fit into memory, and plans that were moved") {
  AttentionShapes shapes = usual();
  for (auto* shape : {&shapes.q, &shapes.k, &shapes.v}) (**shape)[0] = Index{1} << 50;
  // A sanitizer ends the process in place of the exception.
  if (!sanitized) refuses(shapes, {}, Failure::memory, "out of memory");
  Random random(333);
  const BatchSizes sizes{1, 2, 1, 3, 4, 2, 2};
  const Batch<double> batch(sizes, random, false);
  // Threads without work take no memory.
  AttentionPlan<double> plan(shapes_of(batch.inputs()), {}, std::numeric_limits<int>::max());
  CHECK(plan.workspace_bytes() < Index{1} << 22);
  Results<double> got(sizes, false);
  AttentionPlan<double> other = std::move(plan);
  const Error error = thrown_error([&] { plan.run(batch.inputs(), got.views); });
  CHECK(error.failure() == Failure::usage);
  CHECK(contains(error.what(), "this plan has been moved from"));
  plan = std::move(other);
  plan.run(batch.inputs(), got.views);
}
