// Arrays with strides give the bits of dense arrays.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/statistics.hpp"
#include "attnkit/transport.hpp"
#include "plan_problem.hpp"
#include "same_bits.hpp"
#include "tensor/shape.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Copies of arrays whose axes but the last lie in a random order, with gaps between them.
template <class T>
class Spreader {
 public:
  explicit Spreader(Random& random) : random_(random) {}

  template <class U>
  TensorView<const U> operator()(const TensorView<const U>& dense,
                                 std::deque<std::vector<U>>& held) {
    if (!dense) return dense;
    const TensorView<U> made = room(dense.shape, held);
    for (Index n = 0; n < element_count(dense.shape); ++n) at(made, n) = dense.data[n];
    return made;
  }

  // NaN, or for a mask 7, in the gaps and everywhere else.
  template <class U>
  TensorView<U> room(const Shape& shape, std::deque<std::vector<U>>& held) {
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!order.empty()) std::shuffle(order.begin(), order.end() - 1, random_);
    Shape strides(shape.size(), 1);
    Index next = 1;
    for (std::size_t n = order.size(); n-- > 0;) {
      strides[order[n]] = next;
      next = next * shape[order[n]] + random_index(random_, 0, 3);
    }
    // The stride of an axis of length 1 says nothing.
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == 1) strides[axis] = random_index(random_, 0, 3);
    }
    const U gap = std::is_floating_point_v<U> ? std::numeric_limits<U>::quiet_NaN() : U{7};
    held.emplace_back(static_cast<std::size_t>(next + 1), gap);
    return {held.back().data(), shape, strides};
  }

  template <class U>
  static U& at(const TensorView<U>& view, Index n) {
    const Shape index = unravel(n, view.shape);
    Index offset = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      offset += index[axis] * view.strides[axis];
    }
    return view.data[offset];
  }

  // Whether only the elements of a view have been written, and all of them.
  static bool gaps_are_kept(const TensorView<T>& view) {
    Index extent = 1;
    for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
      extent += (view.shape[axis] - 1) * view.strides[axis];
    }
    const auto written = std::count_if(view.data, view.data + extent + 1,
                                       [](T number) { return !std::isnan(number); });
    return written == element_count(view.shape);
  }

  AttentionInputs<T> operator()(const AttentionInputs<T>& dense) {
    AttentionInputs<T> made = dense;
    for (auto* view : {&made.q, &made.k, &made.v, &made.scores, &made.x, &made.y, &made.wq,
                       &made.wk, &made.wv, &made.bq, &made.bias, &made.preference, &made.gate}) {
      *view = (*this)(*view, numbers_);
    }
    for (auto& operand : made.energy) operand.second = (*this)(operand.second, numbers_);
    made.mask = (*this)(made.mask, masks_);
    return made;
  }

  std::deque<std::vector<T>> numbers_;
  std::deque<std::vector<std::uint8_t>> masks_;

 private:
  Random& random_;
};

// All results and gradients, as far as there are any. With a Spreader, out and gradients have
// strides.
template <class T>
struct AllResults {
  std::vector<T> out, weights, q, k, v, x, wq, bias, gate;
  std::vector<double> col_sum, row_potential, col_potential, row_entropy;

  AllResults(const AttentionInputs<T>& in, const AttentionOptions& options,
             const TensorView<const T>& grad_out, Spreader<T>* spreader) {
    AttentionPlan<T> plan(shapes_of(in), options, 2);
    const auto room = [](auto& values, const Shape& shape) {
      values.resize(static_cast<std::size_t>(element_count(shape)));
      return TensorView(values.data(), shape);
    };
    std::vector<std::pair<std::vector<T>*, TensorView<T>>> spread;
    const auto place = [&](std::vector<T>& values, const Shape& shape) {
      const TensorView<T> dense = room(values, shape);
      if (spreader == nullptr) return dense;
      spread.emplace_back(&values, spreader->room(shape, spreader->numbers_));
      return spread.back().second;
    };
    AttentionOutputs<T> to;
    to.out = place(out, plan.out_shape());
    to.weights = room(weights, join(plan.query_shape(), {plan.key_shape().back()}));
    to.col_sum = room(col_sum, plan.key_shape());
    to.row_potential = room(row_potential, plan.query_shape());
    to.col_potential = room(col_potential, plan.key_shape());
    to.row_entropy = room(row_entropy, plan.query_shape());
    AttentionGradients<T> gradients;
    if (in.q) gradients.q = place(q, in.q.shape);
    if (in.k) gradients.k = place(k, in.k.shape);
    if (in.v) gradients.v = place(v, in.v.shape);
    if (in.x) gradients.x = place(x, in.x.shape);
    if (in.wq) gradients.wq = place(wq, in.wq.shape);
    if (in.bias) gradients.bias = place(bias, in.bias.shape);
    if (in.gate) gradients.gate = place(gate, in.gate.shape);
    plan.run(in, to);
    plan.gradients(in, grad_out, gradients);
    for (auto& [values, view] : spread) {
      for (Index n = 0; n < std::ssize(*values); ++n) {
        (*values)[static_cast<std::size_t>(n)] = Spreader<T>::at(view, n);
      }
      CHECK(Spreader<T>::gaps_are_kept(view));
    }
  }

  bool operator==(const AllResults& other) const {
    return same_bits(out, other.out) && same_bits(weights, other.weights) &&
           same_bits(q, other.q) && same_bits(k, other.k) && same_bits(v, other.v) &&
           same_bits(x, other.x) && same_bits(wq, other.wq) && same_bits(bias, other.bias) &&
           same_bits(gate, other.gate) && same_bits(col_sum, other.col_sum) &&
           same_bits(row_potential, other.row_potential) &&
           same_bits(col_potential, other.col_potential) &&
           same_bits(row_entropy, other.row_entropy);
  }
};

template <class T>
void check_strides(const AttentionInputs<T>& dense, const AttentionOptions& options,
                   const TensorView<const T>& grad_out, Random& random) {
  Spreader<T> spreader(random);
  const AllResults<T> expected(dense, options, grad_out, nullptr);
  const AttentionInputs<T> strided = spreader(dense);
  const TensorView<const T> upstream = spreader(grad_out, spreader.numbers_);
  CHECK(AllResults<T>(strided, options, upstream, &spreader) == expected);
}

}  // namespace

TEST_CASE_TEMPLATE("q, k, v, out and all terms with strides", T, float, double) {
  Random random(811);
  const BatchSizes all_sizes[] = {{2, 4, 2, 5, 7, 3, 2},
                                  {1, 2, 1, 1, 70, 8, 5},
                                  {2, 2, 2, 130, 65, 64, 64},
                                  {1, 2, 2, 300, 260, 16, 24}};
  for (const BatchSizes& sizes : all_sizes) {
    for (const Scheme scheme : schemes_with_fenchel) {
      for (const char* energy : {"dot", "scaled-dot", "gaussian", "bilinear", "mlp"}) {
        CAPTURE(sizes.queries);
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(energy);
        const Batch<T> batch(sizes, random, true);
        AttentionInputs<T> in = batch.inputs();
        AttentionOptions options = attention_options(scheme);
        options.energy = energy;
        options.scale = 0.3;
        const auto w = random_numbers<T>(sizes.depth * sizes.depth, random, 0.3);
        const auto w1 = random_numbers<T>(3 * 2 * sizes.depth, random, 0.3);
        const auto w2 = random_numbers<T>(3, random);
        if (options.energy == "bilinear") {
          in.energy["w"] = {w.data(), {sizes.depth, sizes.depth}};
        }
        if (options.energy == "mlp") {
          in.energy["w1"] = {w1.data(), {3, 2 * sizes.depth}};
          in.energy["w2"] = {w2.data(), {3}};
        }
        const auto gate = random_numbers<T>(sizes.problems() * sizes.queries, random);
        in.gate = {gate.data(), {sizes.batches, sizes.query_heads, sizes.queries, 1}};
        std::vector<T> preference = random_numbers<T>(sizes.query_heads * sizes.keys, random);
        for (T& u : preference) u = std::abs(u);
        if (scheme == Scheme::fenchel) {
          in.preference = {preference.data(), {sizes.query_heads, 1, sizes.keys}};
        }
        check_strides(in, options, batch.upstream(), random);
      }
    }
  }
}

TEST_CASE_TEMPLATE("projections, ready-made scores and repeated steps with strides", T, float,
                   double) {
  Random random(812);
  const Index heads = 3, length = 40, width = 6, depth = 4;
  const auto x = random_numbers<T>(2 * length * width, random);
  const auto weights = random_numbers<T>(heads * width * depth, random);
  const auto bias = random_numbers<T>(heads * depth, random);
  const auto grad_out = random_numbers<T>(2 * heads * length * depth, random);
  const TensorView<const T> upstream{grad_out.data(), {2, heads, length, depth}};
  const auto scores = random_numbers<T>(2 * heads * length * length, random);
  for (const Scheme scheme : all_schemes) {
    CAPTURE(static_cast<int>(scheme));
    AttentionInputs<T> in;
    in.x = {x.data(), {2, length, width}};
    in.wq = in.wk = in.wv = {weights.data(), {heads, width, depth}};
    in.bq = {bias.data(), {heads, depth}};
    check_strides(in, attention_options(scheme), upstream, random);

    AttentionInputs<T> made;
    made.scores = {scores.data(), {2, heads, length, length}};
    made.v = {grad_out.data(), {2, heads, length, depth}};
    check_strides(made, attention_options(scheme), upstream, random);
  }
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
    AttentionInputs<T> in;
    in.q = in.k = in.v = upstream;
    AttentionOptions options = attention_options(scheme);
    options.energy = "gaussian";
    options.repetition = Repetition{.iterations = 3};
    check_strides(in, options, upstream, random);
  }
}

TEST_CASE("a stride of 0 repeats an axis") {
  Random random(813);
  const auto k = random_numbers<float>(7 * 3, random);
  const auto q = random_numbers<float>(4 * 5 * 3, random);
  AttentionInputs<float> in;
  in.q = {q.data(), {4, 5, 3}};
  in.k = in.v = {k.data(), {4, 7, 3}, {0, 3, 1}};
  AttentionPlan<float> plan(shapes_of(in), {}, 1);
  std::vector<float> found(q.size()), expected(q.size());
  plan.run(in, {.out = {found.data(), plan.out_shape()}});
  in.k = in.v = {k.data(), {7, 3}};
  AttentionPlan<float> shared(shapes_of(in), {}, 1);
  shared.run(in, {.out = {expected.data(), plan.out_shape()}});
  CHECK(same_bits(found, expected));
}

TEST_CASE("strides are refused where arrays must be dense, and if they are wrong") {
  Random random(814);
  const auto q = random_numbers<float>(200, random);
  std::vector<double> sums(10);
  AttentionInputs<float> in;
  in.q = in.k = {q.data(), {5, 3}};
  AttentionPlan<float> plan(shapes_of(in), {}, 1);
  const auto message = [&](const auto& run) { return std::string(thrown_error(run).what()); };
  const auto refused = [&](const Shape& strides) {
    in.q.strides = strides;
    return message([&] { plan.run(in, {.row_entropy = {sums.data(), {5}}}); });
  };
  const std::string expected =
      ", expected one for each axis, 0 or more, 1 for the last, and rows that do not overlap";
  CHECK(refused({3}) == "q has strides (3)" + expected);
  CHECK(refused({3, 2}) == "q has strides (3, 2)" + expected);
  CHECK(refused({-3, 1}) == "q has strides (-3, 1)" + expected);
  CHECK(refused({2, 1}) == "q has strides (2, 1)" + expected);
  CHECK(refused({0, 1}) == "q has strides (0, 1)" + expected);
  in.q.strides = {3, 1};
  CHECK(message([&] {
          plan.run(in, {.row_entropy = {sums.data(), {5}, {2}}});
        }) == "row_entropy has strides (2)" + expected);
  std::vector<float> room(200);
  in.v = in.k;
  AttentionPlan<float> with_values(shapes_of(in), {}, 1);
  for (const Shape& strides : {Shape{2, 1}, Shape{0, 1}}) {
    const std::string error = message([&] {
      with_values.run(in, {.out = {room.data(), with_values.out_shape(), strides}});
    });
    CHECK(error == "out has strides " + to_string(strides) + expected);
  }
  in.q = in.k = in.v = {q.data(), {2, 5, 3}};
  AttentionPlan<float> heads(shapes_of(in), {}, 1);
  for (const Shape& strides : {Shape{0, 3, 1}, Shape{14, 3, 1}, Shape{3, 3, 1}}) {
    const std::string error = message([&] {
      heads.run(in, {.out = {room.data(), heads.out_shape(), strides}});
    });
    CHECK(error == "out has strides " + to_string(strides) +
                       ", expected a place of its own for each element");
  }
  heads.run(in, {.out = {room.data(), heads.out_shape(), {3, 6, 1}}});
  AttentionGradients<float> gradients;
  gradients.k = {room.data(), {2, 5, 3}, {0, 3, 1}};
  CHECK(message([&] { heads.gradients(in, in.q, gradients); }) ==
        "the gradient of k has strides (0, 3, 1), expected a place of its own for each element");
  TransportInputs<float> between;
  between.x = between.y = {q.data(), {5, 3}};
  TransportOptions options;
  options.epsilon = 1;
  TransportPlan<float> transport(shapes_of(between), options, 1);
  between.y.strides = {4, 1};
  CHECK(message([&] { transport.run(between, {}); }) ==
        "y has strides (4, 1), expected a dense array");
}

TEST_CASE("an array without elements is dense under any strides") {
  std::vector<double> sums(1);
  AttentionInputs<float> in;
  const std::vector<float> numbers(8);
  in.q = {numbers.data(), {2, 0, 4}, {4, 4, 1}};
  in.k = {numbers.data(), {2, 1, 4}, {4, 4, 1}};
  AttentionPlan<float> plan(shapes_of(in), {}, 1);
  plan.run(in, {.row_entropy = {sums.data(), {2, 0}, {1, 1}}});
  CHECK(sums[0] == 0);
}
