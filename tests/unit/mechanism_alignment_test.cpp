#include "attnkit/error.hpp"
#include "mechanism_check.hpp"
#include "mechanisms/alignment.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::Alignment;

namespace {

std::vector<Values> plain_alignment(const PlainSequence& at) {
  const Index places = at.size("I"), rows = at.size("J"), inner = at.size("A");
  const Index width = at.size("S"), state = at.size("G"), reach = at.size("K");
  const auto entry = [&](Alignment::Input input, Index row, Index col, Index cols) {
    return at.inputs[input][static_cast<std::size_t>(row * cols + col)];
  };
  Values context, weights, fertility(static_cast<std::size_t>(places), 0);
  Values previous(static_cast<std::size_t>(places), 0);
  for (Index j = 0; j < rows; ++j) {
    Values row;
    long double sum = 0;
    for (Index i = 0; i < places; ++i) {
      const long double psi[] = {std::log(j + 2.0L), std::log(i + 2.0L), std::log(places + 1.0L)};
      long double energy = 0;
      for (Index a = 0; a < inner; ++a) {
        long double hidden = 0;
        for (Index s = 0; s < width; ++s) {
          hidden += entry(Alignment::w_source, a, s, width) * entry(Alignment::source, i, s, width);
        }
        for (Index g = 0; g < state; ++g) {
          hidden += entry(Alignment::w_target, a, g, state) * entry(Alignment::target, j, g, state);
        }
        for (Index n = 0; n < 3; ++n) hidden += entry(Alignment::w_position, a, n, 3) * psi[n];
        for (Index m = -reach; m <= reach; ++m) {
          if (i + m < 0 || i + m >= places) continue;
          hidden += entry(Alignment::w_previous, a, m + reach, 2 * reach + 1) *
                    previous[static_cast<std::size_t>(i + m)];
        }
        energy += entry(Alignment::v, 0, a, inner) * std::tanh(hidden);
      }
      row.push_back(std::exp(energy));
      sum += row.back();
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] /= sum;
      fertility[i] += row[i];
    }
    for (Index s = 0; s < width; ++s) {
      long double mean = 0;
      for (Index i = 0; i < places; ++i) {
        mean += row[static_cast<std::size_t>(i)] * entry(Alignment::source, i, s, width);
      }
      context.push_back(mean);
    }
    weights.insert(weights.end(), row.begin(), row.end());
    previous = row;
  }
  return {context, weights, fertility};
}

mechanisms::Sizes alignment_sizes(Index places, Index rows, Index reach) {
  return {{"I", places}, {"J", rows}, {"S", 3}, {"G", 2}, {"A", 4}, {"K", reach}};
}

// All results (context, weights, fertility) of random inputs; those named are absent, or zeros.
std::vector<double> results_without(const std::vector<std::size_t>& missing, bool absent,
                                    Index places, Index rows, int threads = 1) {
  const auto sizes = alignment_sizes(places, rows, 1);
  std::mt19937_64 random(3);
  const auto& form = Alignment::form();
  PlainSequence sequence = random_sequence(form, sizes, 1, random);
  for (const std::size_t n : missing) sequence.inputs[n].assign(sequence.inputs[n].size(), 0);
  Stored<double> inputs, results;
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    inputs.add(sequence.inputs[n], mechanisms::shape_of(form.inputs[n].axes, sizes));
  }
  for (const auto& one : form.results) results.add_room(mechanisms::shape_of(one.axes, sizes));
  auto views = inputs.views<const double>();
  if (absent) {
    for (const std::size_t n : missing) views[n] = {};
  }
  Alignment::make<double>()->forward({views, {}}, results.views<double>(), threads);
  std::vector<double> all;
  for (const auto& numbers : results.numbers) all.insert(all.end(), numbers.begin(), numbers.end());
  return all;
}

// The gradients of random inputs from random ones of all results, on a number of threads.
std::vector<std::vector<double>> gradients_on(int threads, bool look_back, Index places,
                                              Index rows) {
  const auto sizes = alignment_sizes(places, rows, 2);
  std::mt19937_64 random(5);
  const auto& form = Alignment::form();
  const PlainSequence sequence = random_sequence(form, sizes, 1, random);
  Stored<double> inputs, gradients, upstream;
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    inputs.add(sequence.inputs[n], mechanisms::shape_of(form.inputs[n].axes, sizes));
    gradients.add_room(inputs.shapes.back());
  }
  for (const auto& one : form.results) {
    const Shape shape = mechanisms::shape_of(one.axes, sizes);
    upstream.add(random_values(count_of(shape), random), shape);
  }
  auto read = inputs.views<const double>();
  auto written = gradients.views<double>();
  if (!look_back) {
    read[Alignment::w_previous] = {};
    written[Alignment::w_previous] = {};
    gradients.numbers[Alignment::w_previous].clear();
  }
  Alignment::make<double>()->backward({read, {}}, upstream.views<const double>(), written, threads);
  return gradients.numbers;
}

}  // namespace

TEST_CASE_TEMPLATE("attention with alignment biases", T, float, double) {
  const auto mechanism = Alignment::make<T>();
  for (const auto& [places, rows] : {std::pair{0, 2}, {1, 1}, {2, 0}, {1, 4}, {6, 5}, {19, 3}}) {
    for (const Index reach : {0, 1, 3}) {
      check_mechanism(*mechanism, plain_alignment, alignment_sizes(places, rows, reach));
    }
  }
  check_mechanism(*mechanism, plain_alignment,
                  {{"I", 3}, {"J", 3}, {"S", 1}, {"G", 1}, {"A", 1}, {"K", 1}});
}

TEST_CASE_TEMPLATE("attention with alignment biases over padded batches", T, float, double) {
  const auto mechanism = Alignment::make<T>();
  std::vector<mechanisms::Sizes> own;
  for (Index b = 0; b < 11; ++b) own.push_back(alignment_sizes(b * 3 % 8, b * 5 % 6, 2));
  for (const int threads : {1, 2, 16}) {
    check_batch(*mechanism, alignment_sizes(7, 5, 2), own, threads);
  }
}

TEST_CASE("a term without weights is one with weights of 0") {
  using Names = std::vector<std::size_t>;
  for (const Names& missing : {Names{Alignment::w_position}, Names{Alignment::w_previous},
                               Names{Alignment::w_position, Alignment::w_previous}}) {
    // With more rows than a panel has.
    const auto absent = results_without(missing, true, 5, 300);
    const auto zeros = results_without(missing, false, 5, 300);
    REQUIRE(absent.size() == zeros.size());
    for (std::size_t n = 0; n < absent.size(); ++n) {
      CHECK(std::abs(absent[n] - zeros[n]) < 1e-12);
    }
  }
}

TEST_CASE("more places than one part, on any number of threads") {
  const auto one = results_without({}, false, 1100, 4);
  CHECK(results_without({}, false, 1100, 4, 3) == one);
  for (const bool look_back : {true, false}) {
    const auto gradients = gradients_on(1, look_back, 1100, 150);
    CHECK(std::isfinite(gradients[Alignment::w_position][0]));
    CHECK(gradients_on(3, look_back, 1100, 150) == gradients);
  }
  const auto mechanism = Alignment::make<double>();
  std::mt19937_64 random(9);
  MechanismCheck<double> check(
      *mechanism, plain_alignment,
      random_sequence(Alignment::form(), alignment_sizes(1100, 3, 2), 1, random));
  CHECK(check.error_of_results() < 1e-12);
}

TEST_CASE("a hidden layer beyond the range is refused") {
  const auto run = [](float encoding, float state) {
    std::vector<float> source = {encoding}, target = {state}, one = {2}, context(1);
    mechanisms::Tensors<const float> inputs(7);
    inputs[Alignment::source] = {source.data(), {1, 1}};
    inputs[Alignment::target] = {target.data(), {1, 1}};
    inputs[Alignment::w_source] = {one.data(), {1, 1}};
    inputs[Alignment::w_target] = {one.data(), {1, 1}};
    inputs[Alignment::v] = {one.data(), {1}};
    mechanisms::Tensors<float> results(3);
    results[Alignment::context] = {context.data(), {1, 1}};
    Alignment::make<float>()->forward({inputs, {}}, results, 1);
    return context[0];
  };
  CHECK(run(1e37F, -1e37F) == 1e37F);
  CHECK_THROWS_AS(run(3e38F, 0), Error);
  CHECK_THROWS_AS(run(0, -3e38F), Error);
}

TEST_CASE("a window of an even number of places is refused") {
  const mechanisms::TensorForm& window = Alignment::form().inputs[Alignment::w_previous];
  CHECK(mechanisms::sizes_of({{&window, {4, 5}, 0}}).at("K") == 2);
  CHECK_THROWS_WITH_AS(mechanisms::sizes_of({{&window, {4, 6}, 0}}),
                       "w_previous has the shape (4, 6), expected (A, 2*K+1), with A = 4", Error);
  CHECK_THROWS_AS(mechanisms::sizes_of({{&window, {4, 0}, 0}}), Error);
}
