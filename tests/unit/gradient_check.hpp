#pragma once

// Gradients of a random problem by the library, and by the reference.

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gradient/bias_gradient.hpp"
#include "gradient/energy_gradient.hpp"
#include "pass/output.hpp"
#include "random_problem.hpp"
#include "reference/reference_gradient.hpp"
#include "scheme/gradient.hpp"
#include "scheme_check.hpp"

namespace attn::testing {

/// The gradients of all operands of a problem; empty for missing operands.
template <class T>
struct Gradients {
  std::vector<T> q, k, v, w, w2, b1;
  std::vector<T> scores, by_query, by_key, table;
  double hybrid = 0;
};

inline reference::Matrix random_matrix(Index rows, Index cols, Random& random) {
  std::normal_distribution<double> unit;
  reference::Matrix m(rows, cols);
  // Values representable in float32.
  for (long double& x : m.values) x = static_cast<float>(unit(random));
  return m;
}

template <class T>
std::vector<T> room(Index rows, Index cols) {
  return std::vector<T>(static_cast<std::size_t>(rows * cols), std::numeric_limits<T>::quiet_NaN());
}

template <class T>
std::unique_ptr<GradientSink<T>> energy_sink(const Problem<T>& problem, Gradients<T>& found,
                                             int threads) {
  const auto q = problem.q();
  const auto k = problem.k();
  const ProblemOptions& options = problem.options();
  found.q = room<T>(q.rows, q.cols);
  found.k = room<T>(k.rows, k.cols);
  const MatrixView<T> grad_q(found.q.data(), q.rows, q.cols);
  const MatrixView<T> grad_k(found.k.data(), k.rows, k.cols);
  if (options.mechanism == Mechanism::product) {
    return make_product_gradient<T>(options.energy, q, k, options.scale, grad_q, grad_k);
  }
  const auto w = problem.w();
  found.w = room<T>(w.rows, w.cols);
  const MatrixView<T> grad_w(found.w.data(), w.rows, w.cols);
  if (options.mechanism == Mechanism::bilinear) {
    return make_bilinear_gradient<T>(q, k, w, options.scale, grad_q, grad_k, grad_w, threads);
  }
  found.w2 = room<T>(w.rows, 1);
  found.b1 = room<T>(w.rows, 1);
  return make_mlp_gradient<T>(q, k, problem.mlp_weights(), options.scale,
                              {grad_q, grad_k, grad_w, found.w2, found.b1}, threads);
}

template <class T>
Gradients<T> gradients_of(const Problem<T>& problem, const SchemeOptions& options,
                          const reference::Matrix& grad_out, int threads = 2,
                          bool of_scores = true) {
  const Index queries = problem.scores().rows();
  const Index keys = problem.scores().cols();
  const auto v = problem.v();
  std::vector<T> out(static_cast<std::size_t>(queries * v.cols));
  Output<T> output(v, MatrixView<T>(out.data(), queries, v.cols));
  const Attention attention = attend<T>(problem.scores(), options, {&output}, threads);
  const std::vector<T> narrow_grad_out(grad_out.values.begin(), grad_out.values.end());

  Gradients<T> found;
  found.v = room<T>(keys, v.cols);
  found.scores = room<T>(queries, keys);
  found.by_query = room<T>(queries, 1);
  found.by_key = room<T>(1, keys);
  const auto energy = energy_sink(problem, found, threads);
  const auto whole = make_bias_gradient<T>(queries, keys, {found.scores.data(), queries, keys});
  const auto rows = make_bias_gradient<T>(queries, keys, {found.by_query.data(), queries, 1});
  const auto cols = make_bias_gradient<T>(queries, keys, {found.by_key.data(), 1, keys});
  Forward<T> forward;
  forward.scores = &problem.scores();
  forward.options = options;
  forward.attention = &attention;
  forward.v = v;
  forward.out = {out.data(), queries, v.cols};
  forward.grad_out = {narrow_grad_out.data(), queries, v.cols};
  GradientTargets<T> targets;
  targets.v = {found.v.data(), keys, v.cols};
  targets.scores = {rows.get(), cols.get()};
  if (of_scores) targets.scores.push_back(whole.get());
  std::unique_ptr<GradientSink<T>> t5;
  if (problem.options().relative == Relative::t5) {
    BucketRule rule;
    rule.bidirectional = problem.options().causal == Causal::none;
    found.table = room<T>(rule.buckets, 1);
    t5 = make_t5_gradient<T>(queries, keys, problem.band().offset, rule,
                             {found.table.data(), rule.buckets, 1});
    targets.scores.push_back(t5.get());
  }
  targets.energies = {energy.get()};
  targets.hybrid = options.scheme == Scheme::hnas;
  found.hybrid = differentiate(forward, targets, threads).hybrid;
  return found;
}

/// The same from the reference.
template <class T>
Gradients<long double> reference_gradients(const Problem<T>& problem, const SchemeOptions& options,
                                           const reference::Matrix& grad_out) {
  const auto terms = problem.reference_terms();
  const auto energies = problem.reference_energies();
  const auto of_scheme = reference::differentiate(
      reference::scores(energies, terms), options.scheme, options.hybrid,
      options.stopping.iterations.value_or(1), problem.reference_v(), grad_out);
  const auto grad = reference::energy_gradient(of_scheme.scores, energies, terms);
  const auto q = problem.reference_q();
  const auto k = problem.reference_k();
  reference::VectorGradients vectors;
  switch (problem.options().mechanism) {
    case Mechanism::product:
      vectors = reference::differentiate_energies(problem.options().energy, q, k, grad);
      break;
    case Mechanism::bilinear:
      vectors = reference::differentiate_bilinear(q, k, problem.reference_w(), grad);
      break;
    case Mechanism::mlp:
      vectors = reference::differentiate_mlp(q, k, problem.reference_w(), problem.reference_w2(),
                                             problem.reference_b1(), grad);
      break;
  }
  Gradients<long double> want;
  want.q = vectors.q.values;
  want.k = vectors.k.values;
  want.w = vectors.w.values;
  want.w2 = vectors.w2.values;
  want.b1 = vectors.b1.values;
  want.v = of_scheme.v.values;
  want.hybrid = static_cast<double>(of_scheme.hybrid);
  const auto& s = of_scheme.scores;
  want.by_query.resize(static_cast<std::size_t>(s.rows));
  want.by_key.resize(static_cast<std::size_t>(s.cols));
  if (problem.options().relative == Relative::t5) want.table.resize(32);
  const Index shift = terms.causal == Causal::bottom_right ? s.cols - s.rows : 0;
  for (Index i = 0; i < s.rows; ++i) {
    for (Index j = 0; j < s.cols; ++j) {
      const long double value = s(i, j);
      want.scores.push_back(value);
      want.by_query[static_cast<std::size_t>(i)] += value;
      want.by_key[static_cast<std::size_t>(j)] += value;
      if (want.table.empty()) continue;
      const Index bucket =
          reference::t5_bucket(j - i - shift, terms.causal == Causal::none, 32, 128);
      want.table[static_cast<std::size_t>(bucket)] += value;
    }
  }
  return want;
}

/// The project's bound: 5e-5 (1e-11) for exponentials, products and sums, and eight roundings of
/// the largest score.
template <class T>
double gradient_tolerance(double largest_score) {
  return sizeof(T) == sizeof(float) ? 5e-5 + 8 * std::ldexp(largest_score, -24)
                                    : 1e-11 + 8 * std::ldexp(largest_score, -53);
}

/// |got − want| relative to the largest |want|, or to `floor` if that is larger.
template <class Got, class Want>
double gradient_error(const Got& got, const Want& want, double floor) {
  if (std::size(got) != std::size(want)) return std::numeric_limits<double>::infinity();
  long double largest = floor;
  long double error = 0;
  for (std::size_t n = 0; n < std::size(want); ++n) {
    const long double difference = std::abs(static_cast<long double>(got[n]) - want[n]);
    if (std::isnan(difference)) return std::numeric_limits<double>::quiet_NaN();
    error = std::max(error, difference);
    largest = std::max(largest, std::abs(static_cast<long double>(want[n])));
  }
  return static_cast<double>(largest == 0 ? error : error / largest);
}

template <class Values>
double largest_entry(const Values& values) {
  double largest = 0;
  for (const auto x : values) largest = std::max(largest, std::abs(static_cast<double>(x)));
  return largest;
}

/// Every gradient of the problem against the reference.
template <class T>
void check_gradients(const Problem<T>& problem, const SchemeOptions& options, Random& random) {
  const ProblemOptions& shape = problem.options();
  const auto grad_out = random_matrix(problem.scores().rows(), problem.v().cols, random);
  const auto got = gradients_of(problem, options, grad_out);
  const auto want = reference_gradients(problem, options, grad_out);
  const double bound = gradient_tolerance<T>(largest_score(problem.reference_scores()));
  // The terms of dS, which may cancel: a gradient that vanishes is compared with their size.
  auto v = problem.reference_v();
  for (long double& x : v.values) x -= shape.value_offset;
  const double products = std::abs(static_cast<double>(problem.v().cols)) *
                          largest_entry(grad_out.values) * largest_entry(v.values);
  const double vectors =
      std::abs(shape.scale) * std::max(largest_entry(problem.reference_q().values),
                                       largest_entry(problem.reference_k().values));
  // A fraction of the largest terms that tests of larger gradients never reach.
  const double floor = 1e-2 * products;
  CAPTURE(static_cast<int>(options.scheme));
  CAPTURE(problem.scores().rows());
  CAPTURE(problem.scores().cols());
  CHECK(gradient_error(got.scores, want.scores, floor) <= bound);
  CHECK(gradient_error(got.by_query, want.by_query, products) <= bound);
  CHECK(gradient_error(got.by_key, want.by_key, products) <= bound);
  CHECK(gradient_error(got.table, want.table, products) <= bound);
  CHECK(gradient_error(got.v, want.v, 0) <= bound);
  CHECK(gradient_error(got.q, want.q, floor * vectors) <= bound);
  CHECK(gradient_error(got.k, want.k, floor * vectors) <= bound);
  CHECK(gradient_error(got.w, want.w, floor * vectors) <= bound);
  CHECK(gradient_error(got.w2, want.w2, floor) <= bound);
  if (!want.b1.empty()) CHECK(gradient_error(got.b1, want.b1, floor) <= bound);
  CHECK(gradient_error(std::vector<double>{got.hybrid}, std::vector<double>{want.hybrid},
                       products) <= bound);
}

}  // namespace attn::testing
