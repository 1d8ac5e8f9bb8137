// Grouped-query attention with a mask: its column sums, and the gradients of a loss. Eight query
// heads share two key heads; the last 16 keys are masked. Exits with 1 unless masked keys get no
// weight, the weights of every query sum to 1, and the gradient agrees with finite differences.

#include <attnkit/attention.hpp>
#include <cmath>
#include <cstdio>
#include <numeric>

int main() {
  const attn::Index Hq = 8, Hk = 2, Lq = 48, Lk = 64, d = 16;
  const auto wave = [](attn::Index count, double step) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (std::size_t n = 0; n < values.size(); ++n)
      values[n] = std::sin(step * double(n * n % 997));
    return values;
  };
  std::vector<double> q = wave(Hq * Lq * d, 0.7), k = wave(Hk * Lk * d, 1.3);
  const std::vector<double> v = wave(Hk * Lk * d, 2.1), grad_out = wave(Hq * Lq * d, 0.3);
  std::vector<std::uint8_t> mask(Lk - 16, 1);
  mask.resize(Lk, 0);
  std::vector<double> out(q.size()), col_sum(Hq * Lk), grad_q(q.size()), grad_k(k.size());

  attn::AttentionInputs<double> in;
  in.q = {q.data(), {Hq, Lq, d}}, in.k = {k.data(), {Hk, Lk, d}}, in.v = {v.data(), {Hk, Lk, d}};
  in.mask = {mask.data(), {Lk}};
  attn::AttentionPlan<double> plan(attn::shapes_of(in), {}, 2);
  attn::AttentionOutputs<double> outputs;
  outputs.out = {out.data(), plan.out_shape()}, outputs.col_sum = {col_sum.data(), {Hq, Lk}};
  attn::AttentionGradients<double> gradients;
  gradients.q = {grad_q.data(), in.q.shape}, gradients.k = {grad_k.data(), in.k.shape};
  plan.gradients(in, {grad_out.data(), plan.out_shape()}, gradients, outputs);

  const auto loss = [&] {
    plan.run(in, outputs);
    return std::inner_product(out.begin(), out.end(), grad_out.begin(), 0.0);
  };
  const double mass = std::accumulate(col_sum.begin(), col_sum.begin() + Lk, 0.0), step = 1e-5;
  const double masked = std::accumulate(col_sum.begin() + Lk - 16, col_sum.begin() + Lk, 0.0);
  k[5] += step;
  const double above = loss();
  k[5] -= 2 * step;
  const double slope = (above - loss()) / (2 * step);
  std::printf("head 0 gives %g to all keys, %g to masked ones; dL/dk = %.6f, by differences %.6f\n",
              mass, masked, grad_k[5], slope);
  return std::abs(mass - Lq) < 1e-9 && masked == 0 && std::abs(slope - grad_k[5]) < 1e-6 ? 0 : 1;
}
