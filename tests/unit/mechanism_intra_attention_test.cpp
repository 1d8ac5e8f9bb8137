#include "mechanism_check.hpp"
#include "mechanisms/intra_attention.hpp"

using namespace attn;
using namespace attn::testing;
using mechanisms::Fusion;
using mechanisms::IntraAttention;

namespace {

// y_r += Σ_c m_{r, first + c} x_c for a matrix of `cols` columns.
void add_product(Values& y, const Values& m, std::size_t cols, std::size_t first, const Values& x) {
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c) y[r] += m[r * cols + first + c] * x[c];
  }
}

Values row_of(const Values& m, std::size_t row, std::size_t cols) {
  const auto first = m.begin() + static_cast<std::ptrdiff_t>(row * cols);
  return {first, first + static_cast<std::ptrdiff_t>(cols)};
}

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

// Weights of the places whose states are given, for one query.
Values plain_weights(const std::vector<Values>& states, const Values& project, const Values& query,
                     const Values& v) {
  Values weights;
  long double sum = 0;
  for (const Values& state : states) {
    Values hidden = query;
    add_product(hidden, project, state.size(), 0, state);
    long double energy = 0;
    for (std::size_t a = 0; a < v.size(); ++a) energy += v[a] * std::tanh(hidden[a]);
    weights.push_back(std::exp(energy));
    sum += weights.back();
  }
  for (long double& one : weights) one /= sum;
  return weights;
}

Values mean_of(const std::vector<Values>& vectors, const Values& weights, std::size_t width) {
  Values mean(width, 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::size_t n = 0; n < width; ++n) mean[n] += weights[i] * vectors[i][n];
  }
  return mean;
}

template <Fusion fusion>
std::vector<Values> plain_intra_attention(const PlainSequence& at) {
  using In = IntraAttention;
  const auto size = [&](const char* symbol) { return static_cast<std::size_t>(at.size(symbol)); };
  const std::size_t steps = size("T"), width = size("D"), inner = size("A"), inputs = size("E");
  const auto& in = at.inputs;
  std::vector<Values> h, c, source_h, source_c;
  Values weights(steps * steps, 0), fused, source_weights;
  Values h_mean(width, 0), source_mean;
  std::size_t places = 0, state = 0;
  if (fusion != Fusion::none) {
    places = size("S");
    state = size("G");
    for (std::size_t j = 0; j < places; ++j) {
      source_h.push_back(row_of(in[In::source_h], j, state));
      source_c.push_back(row_of(in[In::source_c], j, width));
    }
    source_mean.assign(state, 0);
  }
  for (std::size_t t = 0; t < steps; ++t) {
    const Values x = row_of(in[In::x], t, inputs);
    Values query(inner, 0);
    add_product(query, in[In::w_x], inputs, 0, x);
    add_product(query, in[In::w_prev], width, 0, h_mean);
    const Values own = plain_weights(h, in[In::w_h], query, in[In::v]);
    for (std::size_t i = 0; i < t; ++i) weights[t * steps + i] = own[i];
    h_mean = mean_of(h, own, width);
    const Values c_mean = mean_of(c, own, width);
    Values gates = in[In::b];
    add_product(gates, in[In::w], width + inputs, 0, h_mean);
    add_product(gates, in[In::w], width + inputs, width, x);
    Values next_c(width), next_h(width);
    for (std::size_t n = 0; n < width; ++n) {
      next_c[n] = sigmoid(gates[width + n]) * c_mean[n] +
                  sigmoid(gates[n]) * std::tanh(gates[3 * width + n]);
    }
    if (fusion != Fusion::none) {
      Values source_query(size("B"), 0);
      add_product(source_query, in[In::u_x], inputs, 0, x);
      add_product(source_query, in[In::u_prev], state, 0, source_mean);
      const Values p = plain_weights(source_h, in[In::u_h], source_query, in[In::u]);
      source_weights.insert(source_weights.end(), p.begin(), p.end());
      source_mean = mean_of(source_h, p, state);
      fused.insert(fused.end(), source_mean.begin(), source_mean.end());
      if (fusion == Fusion::deep) {
        Values r(width, 0);
        add_product(r, in[In::w_r], state + inputs, 0, source_mean);
        add_product(r, in[In::w_r], state + inputs, state, x);
        const Values memory = mean_of(source_c, p, width);
        for (std::size_t n = 0; n < width; ++n) next_c[n] += sigmoid(r[n]) * memory[n];
      }
    }
    for (std::size_t n = 0; n < width; ++n) {
      next_h[n] = sigmoid(gates[2 * width + n]) * std::tanh(next_c[n]);
    }
    h.push_back(next_h);
    c.push_back(next_c);
  }
  Values all_h, all_c;
  for (std::size_t t = 0; t < steps; ++t) {
    all_h.insert(all_h.end(), h[t].begin(), h[t].end());
    all_c.insert(all_c.end(), c[t].begin(), c[t].end());
  }
  std::vector<Values> results = {all_h, all_c, weights};
  if (fusion != Fusion::none) {
    results.push_back(fused);
    results.push_back(source_weights);
  }
  return results;
}

mechanisms::Sizes sizes_with(Index steps, Fusion fusion, Index places = 0) {
  mechanisms::Sizes sizes = {{"T", steps}, {"D", 3}, {"A", 4}, {"E", 2}};
  if (fusion != Fusion::none) sizes.insert({{"S", places}, {"G", 2}, {"B", 3}});
  return sizes;
}

}  // namespace

TEST_CASE_TEMPLATE("intra-attention", T, float, double) {
  const auto mechanism = IntraAttention::make<T>(Fusion::none);
  for (const Index steps : {0, 1, 2, 9}) {
    check_mechanism(*mechanism, plain_intra_attention<Fusion::none>,
                    sizes_with(steps, Fusion::none));
  }
  // Energies of 0.
  check_mechanism(*mechanism, plain_intra_attention<Fusion::none>,
                  {{"T", 20}, {"D", 2}, {"A", 0}, {"E", 1}});
}

TEST_CASE_TEMPLATE("shallow and deep fusion with a source", T, float, double) {
  const auto shallow = IntraAttention::make<T>(Fusion::shallow);
  const auto deep = IntraAttention::make<T>(Fusion::deep);
  for (const auto& [steps, places] : {std::pair{0, 2}, {1, 1}, {2, 0}, {6, 5}}) {
    check_mechanism(*shallow, plain_intra_attention<Fusion::shallow>,
                    sizes_with(steps, Fusion::shallow, places));
    check_mechanism(*deep, plain_intra_attention<Fusion::deep>,
                    sizes_with(steps, Fusion::deep, places));
  }
}

TEST_CASE_TEMPLATE("intra-attention over padded batches", T, float, double) {
  for (const Fusion fusion : {Fusion::none, Fusion::deep}) {
    const auto mechanism = IntraAttention::make<T>(fusion);
    std::vector<mechanisms::Sizes> own;
    for (Index b = 0; b < 9; ++b) own.push_back(sizes_with(b * 3 % 7, fusion, b * 5 % 4));
    for (const int threads : {1, 3}) {
      check_batch(*mechanism, sizes_with(6, fusion, 3), own, threads);
    }
  }
}

// Where projections or queries are too large for products of exponentials, tanh is taken of sums.
TEST_CASE_TEMPLATE("projections and queries of all sizes", T, float, double) {
  const auto mechanism = IntraAttention::make<T>(Fusion::none);
  const mechanisms::Sizes sizes = {{"T", 140}, {"D", 2}, {"A", 2}, {"E", 1}};
  constexpr bool is_double = std::is_same_v<T, double>;
  for (const auto input : {IntraAttention::w_h, IntraAttention::w_x, IntraAttention::w_prev}) {
    CAPTURE(input);
    std::mt19937_64 random(11);
    PlainSequence sequence = random_sequence(IntraAttention::form(Fusion::none), sizes, {}, random);
    for (long double& one : sequence.inputs[input]) one *= 60;
    MechanismCheck<T> check(*mechanism, plain_intra_attention<Fusion::none>, sequence);
    CHECK(check.error_of_results() < (is_double ? 1e-11 : 1e-4));
    CHECK(check.error_of_gradients(random) < (is_double ? 1e-7 : 1e-3));
  }
}

TEST_CASE("more steps than one part of the tape, on any number of threads") {
  const Index steps = 1100;
  const mechanisms::Sizes sizes = {{"T", steps}, {"D", 2}, {"A", 2}, {"E", 1}};
  const auto mechanism = IntraAttention::make<double>(Fusion::none);
  std::mt19937_64 random(5);
  const auto& form = IntraAttention::form(Fusion::none);
  const PlainSequence sequence = random_sequence(form, sizes, 1, random);
  MechanismCheck<double> check(*mechanism, plain_intra_attention<Fusion::none>, sequence);
  CHECK(check.error_of_results() < 1e-12);

  Stored<double> inputs, upstream;
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    inputs.add(sequence.inputs[n], mechanisms::shape_of(form.inputs[n].axes, sizes));
  }
  upstream.add(random_values(2 * steps, random), {steps, 2});
  upstream.add(random_values(2 * steps, random), {steps, 2});
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 5}) {
    Stored<double> gradients;
    for (const Shape& shape : inputs.shapes) gradients.add_room(shape);
    auto grad_results = upstream.views<const double>();
    grad_results.emplace_back();
    mechanism->backward({inputs.views<const double>(), {}}, grad_results, gradients.views<double>(),
                        threads);
    if (first.empty()) first = gradients.numbers;
    CHECK(gradients.numbers == first);
    CHECK(std::isfinite(first[IntraAttention::v][0]));
  }
}
