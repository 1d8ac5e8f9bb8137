#include <algorithm>

#include "attnkit/error.hpp"
#include "mechanism_check.hpp"
#include "mechanisms/coattention.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::Coattention;
using mechanisms::Decoding;

namespace {

using ValueRows = std::vector<Values>;

// W x + b; W has the rows of b.
Values affine(const Values& w, const Values& b, const Values& x) {
  Values y = b;
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c) y[r] += w[r * x.size() + c] * x[c];
  }
  return y;
}

Values followed_by(Values first, const Values& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

long double logistic(long double x) { return 1 / (1 + std::exp(-x)); }

// One step: h and c become those after it.
void lstm_step(const Values& w, const Values& b, const Values& x, Values& h, Values& c) {
  const std::size_t width = h.size();
  const Values gates = affine(w, b, followed_by(h, x));
  for (std::size_t n = 0; n < width; ++n) {
    c[n] = logistic(gates[width + n]) * c[n] + logistic(gates[n]) * std::tanh(gates[3 * width + n]);
    h[n] = logistic(gates[2 * width + n]) * std::tanh(c[n]);
  }
}

ValueRows lstm_states(const PlainSequence& at, std::size_t w, const ValueRows& x, bool backwards) {
  const auto width = static_cast<std::size_t>(at.size("L"));
  Values h(width, 0), c(width, 0);
  ValueRows states(x.size());
  for (std::size_t step = 0; step < x.size(); ++step) {
    const std::size_t t = backwards ? x.size() - 1 - step : step;
    lstm_step(at.inputs[w], at.inputs[w + 1], x[t], h, c);
    states[t] = h;
  }
  return states;
}

ValueRows input_rows(const PlainSequence& at, std::size_t input, Index count) {
  const auto width = static_cast<std::ptrdiff_t>(at.size("E"));
  ValueRows rows;
  for (Index i = 0; i < count; ++i) {
    const auto first = at.inputs[input].begin() + i * width;
    rows.emplace_back(first, first + width);
  }
  return rows;
}

// softmax(q kᵀ), each row appended to `weights`, times v.
ValueRows attended(const ValueRows& q, const ValueRows& k, const ValueRows& v, Values& weights) {
  ValueRows means;
  for (const Values& query : q) {
    Values row;
    long double sum = 0;
    for (const Values& key : k) {
      long double score = 0;
      for (std::size_t c = 0; c < key.size(); ++c) score += query[c] * key[c];
      row.push_back(std::exp(score));
      sum += row.back();
    }
    Values mean(v[0].size(), 0);
    for (std::size_t j = 0; j < row.size(); ++j) {
      weights.push_back(row[j] / sum);
      for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += weights.back() * v[j][c];
    }
    means.push_back(mean);
  }
  return means;
}

// The maxima over pieces of `width` units each.
Values maxima(const Values& layer, std::size_t width) {
  Values most(layer.begin(), layer.begin() + static_cast<std::ptrdiff_t>(width));
  for (std::size_t n = 0; n < layer.size(); ++n) {
    most[n % width] = std::max(most[n % width], layer[n]);
  }
  return most;
}

// log p of all positions by the network that begins at input `first`.
Values maxout_log_p(const PlainSequence& at, std::size_t first, const ValueRows& u,
                    const Values& state) {
  const auto width = static_cast<std::size_t>(at.size("L"));
  Values r = affine(at.inputs[first], Values(width, 0), state);
  for (long double& one : r) one = std::tanh(one);
  Values log_p;
  long double sum = 0;
  for (const Values& own : u) {
    const Values m1 =
        maxima(affine(at.inputs[first + 1], at.inputs[first + 2], followed_by(own, r)), width);
    const Values m2 = maxima(affine(at.inputs[first + 3], at.inputs[first + 4], m1), width);
    log_p.push_back(
        maxima(affine(at.inputs[first + 5], at.inputs[first + 6], followed_by(m1, m2)), 1)[0]);
    sum += std::exp(log_p.back());
  }
  for (long double& one : log_p) one -= std::log(sum);
  return log_p;
}

Values flat(const ValueRows& rows, std::size_t count) {
  Values all;
  for (std::size_t i = 0; i < count; ++i) all.insert(all.end(), rows[i].begin(), rows[i].end());
  return all;
}

template <bool end_after_start>
std::vector<Values> plain_coattention(const PlainSequence& at) {
  using In = Coattention;
  const auto positions = static_cast<std::size_t>(at.size("M"));
  const auto most = static_cast<std::size_t>(at.size("I"));
  const auto width = static_cast<std::size_t>(at.size("L"));
  ValueRows d = lstm_states(at, In::w, input_rows(at, In::document, at.size("M")), false);
  d.push_back(at.inputs[In::sentinel_d]);
  ValueRows q = lstm_states(at, In::w, input_rows(at, In::question, at.size("N")), false);
  q.push_back(at.inputs[In::sentinel_q]);
  for (Values& row : q) {
    row = affine(at.inputs[In::w_question], at.inputs[In::b_question], row);
    for (long double& one : row) one = std::tanh(one);
  }
  Values weights_q, weights_d;
  ValueRows summaries = attended(q, d, d, weights_q);
  for (std::size_t j = 0; j < q.size(); ++j) summaries[j] = followed_by(q[j], summaries[j]);
  const ValueRows context = attended(d, q, summaries, weights_d);
  ValueRows joined;
  for (std::size_t t = 0; t < positions; ++t) joined.push_back(followed_by(d[t], context[t]));
  ValueRows u = lstm_states(at, In::w_forward, joined, false);
  const ValueRows from_right = lstm_states(at, In::w_backward, joined, true);
  for (std::size_t t = 0; t < positions; ++t) u[t] = followed_by(u[t], from_right[t]);

  Values start_log_p(most * positions, 0), end_log_p(most * positions, 0);
  Values h(width, 0), c(width, 0);
  std::size_t s = 0, e = positions - 1, made = 0;
  long double loss = 0;
  for (bool moves = positions > 0; moves && made < most; ++made) {
    const Values span = followed_by(u[s], u[e]);
    lstm_step(at.inputs[In::w_decoder], at.inputs[In::b_decoder], span, h, c);
    const Values start = maxout_log_p(at, In::start_w, u, followed_by(h, span));
    const Values end = maxout_log_p(at, In::end_w, u, followed_by(h, span));
    const auto place = static_cast<std::ptrdiff_t>(made * positions);
    std::copy(start.begin(), start.end(), start_log_p.begin() + place);
    std::copy(end.begin(), end.end(), end_log_p.begin() + place);
    loss -= start[static_cast<std::size_t>(at.tokens[0][0])] +
            end[static_cast<std::size_t>(at.tokens[0][1])];
    const auto largest = [](const Values& row, std::size_t from) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(from);
      return static_cast<std::size_t>(std::max_element(first, row.end()) - row.begin());
    };
    const std::size_t next_s = largest(start, 0);
    const std::size_t next_e = largest(end, end_after_start ? next_s : 0);
    moves = next_s != s || next_e != e;
    s = next_s;
    e = next_e;
  }
  if (positions == 0) s = e = 0;
  return {flat(u, positions),
          flat(context, positions),
          start_log_p,
          end_log_p,
          {static_cast<long double>(s), static_cast<long double>(e)},
          {static_cast<long double>(made)},
          {loss},
          weights_q,
          weights_d};
}

mechanisms::Sizes coattention_sizes(Index m, Index n, Index iterations = 3) {
  return {{"M", m}, {"N", n}, {"E", 2}, {"L", 3}, {"P", 2}, {"I", iterations}};
}

// A sequence with all its tensors; those named are absent.
struct Texts {
  explicit Texts(const mechanisms::Sizes& of, std::uint64_t seed = 3) : sizes(of) {
    std::mt19937_64 random(seed);
    const PlainSequence made = random_sequence(form, sizes, 1, random);
    for (std::size_t n = 0; n < form.inputs.size(); ++n) {
      inputs.add(made.inputs[n], mechanisms::shape_of(form.inputs[n].axes, sizes));
    }
    for (const auto& one : form.results) results.add_room(mechanisms::shape_of(one.axes, sizes));
    target = made.tokens[0];
  }

  mechanisms::Sequence<double> sequence() {
    mechanisms::Sequence<double> made{inputs.views<const double>(), {{target.data(), {2}}}};
    for (const std::size_t n : absent) made.inputs[n] = {};
    return made;
  }

  // All results: numbers that are not written are NaN.
  const std::vector<std::vector<double>>& run(const Decoding& decoding, int threads = 1) {
    Coattention::make<double>(decoding)->forward(sequence(), results.views<double>(), threads);
    return results.numbers;
  }

  // All gradients, of the sum of all encodings and the loss.
  std::vector<std::vector<double>> gradients(const Decoding& decoding, int threads) {
    const Shape& shape = results.shapes[Coattention::encoding];
    const std::vector<double> ones(static_cast<std::size_t>(count_of(shape)), 1);
    mechanisms::Tensors<const double> upstream(form.results.size());
    upstream[Coattention::encoding] = {ones.data(), shape};
    upstream[Coattention::loss] = {ones.data(), {}};
    Stored<double> made;
    for (const Shape& one : inputs.shapes) made.add_room(one);
    Coattention::make<double>(decoding)->backward(sequence(), upstream, made.views<double>(),
                                                  threads);
    return made.numbers;
  }

  const mechanisms::MechanismForm& form = Coattention::form();
  mechanisms::Sizes sizes;
  Stored<double> inputs, results;
  std::vector<Index> target;
  std::vector<std::size_t> absent;
};

}  // namespace

TEST_CASE_TEMPLATE("coattention and its decoder", T, float, double) {
  for (const Index iterations : {1, 3}) {
    const auto any = Coattention::make<T>({iterations, false});
    const auto after_start = Coattention::make<T>({iterations, true});
    for (const auto& [m, n] : {std::pair{1, 1}, {5, 3}, {2, 6}, {0, 3}, {4, 0}, {0, 0}}) {
      check_mechanism(*any, plain_coattention<false>, coattention_sizes(m, n, iterations));
      check_mechanism(*after_start, plain_coattention<true>, coattention_sizes(m, n, iterations));
    }
  }
  const auto mechanism = Coattention::make<T>({2, false});
  for (const Index pieces : {1, 5}) {
    check_mechanism(*mechanism, plain_coattention<false>,
                    {{"M", 4}, {"N", 2}, {"E", 1}, {"L", 1}, {"P", pieces}, {"I", 2}});
  }
}

TEST_CASE_TEMPLATE("coattention over padded batches", T, float, double) {
  const auto mechanism = Coattention::make<T>({3, false});
  std::vector<mechanisms::Sizes> own;
  for (Index b = 0; b < 10; ++b) own.push_back(coattention_sizes(b * 3 % 7, b * 7 % 5));
  for (const int threads : {1, 3}) check_batch(*mechanism, coattention_sizes(6, 4), own, threads);
}

TEST_CASE_TEMPLATE("more positions than the decoder scores at a time", T, float, double) {
  // A panel has at most 256 rows.
  const auto mechanism = Coattention::make<T>({2, false});
  std::mt19937_64 random(3);
  for (const Index m : {256, 257, 600}) {
    MechanismCheck<T> check(
        *mechanism, plain_coattention<false>,
        random_sequence(Coattention::form(), coattention_sizes(m, 3, 2), 1, random));
    CHECK(check.error_of_results() < (std::is_same_v<T, double> ? 1e-12 : 1e-5));
  }
  check_mechanism(*mechanism, plain_coattention<false>,
                  {{"M", 257}, {"N", 1}, {"E", 1}, {"L", 1}, {"P", 2}, {"I", 2}});
}

TEST_CASE("one sequence on any number of threads") {
  Texts texts(coattention_sizes(300, 200));
  const auto results = texts.run({3, false});
  const auto gradients = texts.gradients({3, false}, 1);
  CHECK(std::isfinite(gradients[Coattention::w][0]));
  for (const int threads : {2, 5}) {
    CHECK(texts.run({3, false}, threads) == results);
    CHECK(texts.gradients({3, false}, threads) == gradients);
  }
}

TEST_CASE("the search ends where the span repeats") {
  bool ended = false, went_on = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Texts texts(coattention_sizes(7, 4, 30), seed);
    const auto results = texts.run({30, false});
    const auto made = static_cast<std::size_t>(results[Coattention::iterations][0]);
    REQUIRE(made > 0);
    const auto best = [&](std::size_t result, std::size_t iteration) {
      const auto first = results[result].begin() + static_cast<std::ptrdiff_t>(7 * iteration);
      return std::max_element(first, first + 7) - first;
    };
    CHECK(results[Coattention::span][0] == best(Coattention::start_log_p, made - 1));
    CHECK(results[Coattention::span][1] == best(Coattention::end_log_p, made - 1));
    if (made < 30) {
      ended = true;
      if (made > 1) {
        CHECK(results[Coattention::span][0] == best(Coattention::start_log_p, made - 2));
        CHECK(results[Coattention::span][1] == best(Coattention::end_log_p, made - 2));
      }
      CHECK(results[Coattention::start_log_p][7 * made] == 0);
    }
    went_on = went_on || made > 2;
  }
  CHECK(ended);
  CHECK(went_on);
}

TEST_CASE("an end after the start, if it is asked for") {
  int before = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Texts any(coattention_sizes(7, 4), seed);
    const auto free = any.run({3, false})[Coattention::span];
    if (free[1] < free[0]) ++before;
    Texts ordered(coattention_sizes(7, 4), seed);
    const auto span = ordered.run({3, true})[Coattention::span];
    CHECK(span[0] <= span[1]);
  }
  CHECK(before > 0);
}

TEST_CASE("without its weights there is no decoder, and the encoder is the same") {
  Texts with(coattention_sizes(5, 3));
  Texts without(coattention_sizes(5, 3));
  for (std::size_t n = Coattention::w_decoder; n < without.form.inputs.size(); ++n) {
    without.absent.push_back(n);
  }
  without.sizes.erase("P");
  const auto& all = with.run({3, false});
  const auto& encoded = without.run({3, false});
  CHECK(encoded[Coattention::encoding] == all[Coattention::encoding]);
  CHECK(encoded[Coattention::weights_d] == all[Coattention::weights_d]);
  CHECK(std::isnan(encoded[Coattention::span][0]));  // not written
  const auto mechanism = Coattention::make<double>({3, false});
  CHECK(mechanism->working_bytes(without.sizes, true) < mechanism->working_bytes(with.sizes, true));

  std::vector<double> ones(30, 1), gradient(10, std::nan(""));
  mechanisms::Tensors<const double> upstream(with.form.results.size());
  upstream[Coattention::encoding] = {ones.data(), {5, 6}};
  const auto gradient_from = [&](Texts& texts) {
    mechanisms::Tensors<double> gradients(with.form.inputs.size());
    gradients[Coattention::document] = {gradient.data(), {5, 2}};
    mechanism->backward(texts.sequence(), upstream, gradients, 1);
    return gradient;
  };
  CHECK(gradient_from(without) == gradient_from(with));
}

TEST_CASE("biases that are absent are 0") {
  using In = Coattention;
  const std::vector<std::size_t> biases = {In::b,           In::b_question,  In::b_forward,
                                           In::b_backward,  In::b_decoder,   In::start_w + 2,
                                           In::start_w + 4, In::start_w + 6, In::end_w + 2,
                                           In::end_w + 4,   In::end_w + 6};
  Texts zeros(coattention_sizes(5, 3));
  Texts none(coattention_sizes(5, 3));
  for (const std::size_t n : biases) {
    std::fill(zeros.inputs.numbers[n].begin(), zeros.inputs.numbers[n].end(), 0);
    none.absent.push_back(n);
  }
  CHECK(none.run({3, false}) == zeros.run({3, false}));
}

TEST_CASE("targets outside of the document and numbers beyond the range are refused") {
  Texts texts(coattention_sizes(4, 2));
  texts.target = {0, 4};
  CHECK_THROWS_WITH_AS(texts.run({3, false}), "the target is 4, expected a position in [0, 4)",
                       Error);
  texts.target = {-1, 2};
  CHECK_THROWS_AS(texts.run({3, false}), Error);
  texts.target = {3, 3};
  CHECK(std::isfinite(texts.run({3, false})[Coattention::loss][0]));
  for (const std::size_t input :
       {Coattention::w, Coattention::w_question, Coattention::w_forward, Coattention::w_decoder,
        Coattention::start_w, Coattention::Input{Coattention::end_w + 1},
        Coattention::Input{Coattention::end_w + 5}}) {
    CAPTURE(input);
    Texts large(coattention_sizes(4, 2));
    for (double& one : large.inputs.numbers[input]) one *= 1e308 * 1e3;
    CHECK_THROWS_AS(large.run({3, false}), Error);
  }
  // In an empty document there is no answer.
  Texts empty(coattention_sizes(0, 2));
  empty.target = {5, -1};
  CHECK(empty.run({3, false})[Coattention::loss][0] == 0);
  Texts no_pieces({{"M", 4}, {"N", 2}, {"E", 2}, {"L", 3}, {"P", 0}, {"I", 3}});
  CHECK_THROWS_AS(no_pieces.run({3, false}), Error);
}
