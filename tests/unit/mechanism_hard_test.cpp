#include "attnkit/error.hpp"
#include "mechanism_check.hpp"
#include "mechanisms/hard.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::Hard;

namespace {

// Σ_c m_{row, c} x_{first + c}
long double product(const Values& m, std::size_t row, const Values& x, std::size_t first,
                    std::size_t cols) {
  long double sum = 0;
  for (std::size_t c = 0; c < cols; ++c) sum += m[row * cols + c] * x[first + c];
  return sum;
}

// log p(y|z) of the vector that begins at `first`.
long double plain_log_p(const PlainSequence& at, const Values& z, std::size_t first) {
  const auto words = static_cast<std::size_t>(at.size("V"));
  const auto width = static_cast<std::size_t>(at.size("D"));
  long double sum = 0, own = 0;
  for (std::size_t word = 0; word < words; ++word) {
    const long double score = product(at.inputs[Hard::readout], word, z, first, width) +
                              at.inputs[Hard::readout_bias][word];
    sum += std::exp(score);
    if (static_cast<Index>(word) == at.tokens[Hard::target][0]) own = score;
  }
  return own - std::log(sum);
}

std::vector<Values> plain_hard(const PlainSequence& at) {
  const auto size = [&](const char* symbol) { return static_cast<std::size_t>(at.size(symbol)); };
  const std::size_t positions = size("L"), width = size("D"), inner = size("A"), state = size("H");
  const Values& a = at.inputs[Hard::a];
  Values weights, each;
  long double sum = 0;
  for (std::size_t i = 0; i < positions; ++i) {
    long double energy = 0;
    for (std::size_t n = 0; n < inner; ++n) {
      energy += at.inputs[Hard::v][n] *
                std::tanh(product(at.inputs[Hard::w_a], n, a, i * width, width) +
                          product(at.inputs[Hard::w_h], n, at.inputs[Hard::state], 0, state));
    }
    weights.push_back(std::exp(energy));
    sum += weights.back();
    each.push_back(plain_log_p(at, a, i * width));
  }
  Values mean(width, 0);
  long double log_p = 0, entropy = 0;
  for (std::size_t i = 0; i < positions; ++i) {
    weights[i] /= sum;
    log_p += weights[i] * each[i];
    entropy -= weights[i] * std::log(weights[i]);
    for (std::size_t d = 0; d < width; ++d) mean[d] += weights[i] * a[i * width + d];
  }
  return {{log_p}, {plain_log_p(at, mean, 0)}, each, {entropy}, weights};
}

mechanisms::Sizes hard_sizes(Index positions, Index words = 5) {
  return {{"L", positions}, {"D", 3}, {"H", 2}, {"A", 4}, {"V", words}};
}

// Two annotations of one number, with weights that are all given.
struct Step {
  std::vector<double> a = {1, -1};
  double state = 0, w_a = 1, w_h = 0, v = 0;
  std::vector<double> readout = {1, -1}, bias = {0, 0};
  Index target = 0;
  bool has_bias = true;

  mechanisms::Sequence<double> sequence() const {
    mechanisms::Sequence<double> made{{{a.data(), {2, 1}},
                                       {&state, {1}},
                                       {&w_a, {1, 1}},
                                       {&w_h, {1, 1}},
                                       {&v, {1}},
                                       {readout.data(), {2, 1}},
                                       {bias.data(), {2}}},
                                      {{&target, {}}}};
    if (!has_bias) made.inputs[Hard::readout_bias] = {};
    return made;
  }

  // One result, with as many numbers as it has.
  std::vector<double> result(Hard::Result which, std::size_t count) const {
    std::vector<double> found(count);
    mechanisms::Tensors<double> results(5);
    results[which] = {found.data(), count == 1 ? Shape{} : Shape{2}};
    Hard::make<double>()->forward(sequence(), results, 1);
    return found;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("hard attention", T, float, double) {
  const auto mechanism = Hard::make<T>();
  for (const Index positions : {0, 1, 2, 9, 33}) {
    check_mechanism(*mechanism, plain_hard, hard_sizes(positions));
  }
  // A vocabulary of one word, which is certain.
  check_mechanism(*mechanism, plain_hard, hard_sizes(3, 1), 1);
  check_mechanism(*mechanism, plain_hard, {{"L", 2}, {"D", 1}, {"H", 1}, {"A", 1}, {"V", 2}}, 2);
  check_mechanism(*mechanism, plain_hard, {{"L", 2}, {"D", 2}, {"H", 0}, {"A", 3}, {"V", 5}});
}

TEST_CASE_TEMPLATE("more annotations than one panel of scores", T, float, double) {
  // A panel has at most 256 rows, of large vocabularies fewer.
  const auto mechanism = Hard::make<T>();
  std::mt19937_64 random(3);
  for (const auto& [positions, words] : {std::pair{257, 5}, {7, 50000}}) {
    MechanismCheck<T> check(
        *mechanism, plain_hard,
        random_sequence(Hard::form(), hard_sizes(positions, words), words, random));
    CHECK(check.error_of_results() < (std::is_same_v<T, double> ? 1e-12 : 1e-5));
  }
  check_mechanism(*mechanism, plain_hard, {{"L", 257}, {"D", 1}, {"H", 1}, {"A", 1}, {"V", 3}}, 3);
}

TEST_CASE_TEMPLATE("hard attention over padded batches", T, float, double) {
  const auto mechanism = Hard::make<T>();
  std::vector<mechanisms::Sizes> own;
  for (Index b = 0; b < 11; ++b) own.push_back(hard_sizes(b * 5 % 8));
  for (const int threads : {1, 2, 16}) check_batch(*mechanism, hard_sizes(7), own, threads);
}

TEST_CASE("without a bias the scores are those of a bias of zeros") {
  Step with;
  Step without;
  without.has_bias = false;
  CHECK(with.result(Hard::log_p_each, 2) == without.result(Hard::log_p_each, 2));
  with.bias = {0.5, -0.5};
  CHECK(with.result(Hard::log_p_each, 2) != without.result(Hard::log_p_each, 2));
}

TEST_CASE("the mean over annotations is a lower bound") {
  const Step step;  // equal weights: log ½(p₁ + p₂) = log ½ here
  const auto each = step.result(Hard::log_p_each, 2);
  const double log_p = step.result(Hard::log_p, 1)[0];
  CHECK(log_p == doctest::Approx((each[0] + each[1]) / 2));
  CHECK(log_p < std::log(0.5));
  CHECK(step.result(Hard::log_p_soft, 1)[0] == doctest::Approx(std::log(0.5)));
  CHECK(step.result(Hard::entropy, 1)[0] == doctest::Approx(std::log(2.0)));
}

TEST_CASE("weights and probabilities that are 0 in the type") {
  Step step;
  step.v = 2000;
  step.readout = {1000, -1000};
  step.target = 1;
  CHECK(step.result(Hard::weights, 2) == std::vector<double>{1, 0});
  CHECK(step.result(Hard::entropy, 1)[0] == 0);
  CHECK(step.result(Hard::log_p_each, 2) == std::vector<double>{-2000, 0});
  CHECK(step.result(Hard::log_p, 1)[0] == -2000);
  const double one = 1;
  std::vector<double> dv(1, 7), da(2, 7);
  mechanisms::Tensors<const double> upstream(5);
  upstream[Hard::entropy] = {&one, {}};
  upstream[Hard::log_p] = {&one, {}};
  mechanisms::Tensors<double> gradients(7);
  gradients[Hard::v] = {dv.data(), {1}};
  gradients[Hard::a] = {da.data(), {2, 1}};
  Hard::make<double>()->backward(step.sequence(), upstream, gradients, 1);
  CHECK(dv == std::vector<double>{0});
  CHECK(da == std::vector<double>{-2000, 0});
}

TEST_CASE("words outside of the vocabulary and scores beyond the range are refused") {
  Step step;
  for (const Index target : {Index{-1}, Index{2}}) {
    step.target = target;
    CHECK_THROWS_WITH_AS(
        step.result(Hard::weights, 2),
        ("the target is " + std::to_string(target) + ", expected a word in [0, 2)").c_str(), Error);
  }
  step.target = 0;
  step.readout = {1e308, -1e308};
  step.a = {10, 0};
  CHECK_THROWS_AS(step.result(Hard::log_p, 1), Error);
  step.readout = {1, -1};
  step.w_a = 1e308;
  CHECK_THROWS_AS(step.result(Hard::weights, 2), Error);
}
