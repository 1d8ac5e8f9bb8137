// The scores of the reference: energies and the terms added to them.

#include <algorithm>
#include <cmath>

#include "reference/reference.hpp"
#include "tensor/infinity.hpp"

namespace attn::reference {
namespace {

long double energy(EnergyKind kind, const Matrix& q, Index i, const Matrix& k, Index j) {
  long double sum = 0;
  for (Index c = 0; c < q.cols; ++c) {
    if (kind == EnergyKind::gaussian) {
      const long double difference = q(i, c) - k(j, c);
      sum -= difference * difference / 2;
    } else {
      sum += q(i, c) * k(j, c);
    }
  }
  if (kind == EnergyKind::scaled_dot) sum /= std::sqrt(static_cast<long double>(q.cols));
  return sum;
}

bool in_band(const Terms& terms, Index at, Index j) {
  if (terms.causal != Causal::none && j > at) return false;
  if (terms.window.left && j < at - *terms.window.left) return false;
  return !terms.window.right || j <= at + *terms.window.right;
}

}  // namespace

Matrix energies(EnergyKind kind, const Matrix& q, const Matrix& k) {
  Matrix e(q.rows, k.rows);
  for (Index i = 0; i < q.rows; ++i) {
    for (Index j = 0; j < k.rows; ++j) e(i, j) = energy(kind, q, i, k, j);
  }
  return e;
}

Matrix bilinear_energies(const Matrix& q, const Matrix& k, const Matrix& w) {
  Matrix e(q.rows, k.rows);
  for (Index j = 0; j < k.rows; ++j) {
    for (Index c = 0; c < q.cols; ++c) {
      long double weighted = 0;
      for (Index d = 0; d < k.cols; ++d) weighted += w(c, d) * k(j, d);
      for (Index i = 0; i < q.rows; ++i) e(i, j) += q(i, c) * weighted;
    }
  }
  return e;
}

Matrix mlp_energies(const Matrix& q, const Matrix& k, const Matrix& w1, const Matrix& w2,
                    const Matrix& b1) {
  Matrix e(q.rows, k.rows);
  for (Index a = 0; a < w1.rows; ++a) {
    std::vector<long double> of_key(static_cast<std::size_t>(k.rows), 0);
    for (Index j = 0; j < k.rows; ++j) {
      for (Index d = 0; d < k.cols; ++d) {
        of_key[static_cast<std::size_t>(j)] += w1(a, q.cols + d) * k(j, d);
      }
    }
    for (Index i = 0; i < q.rows; ++i) {
      long double of_query = b1.rows > 0 ? b1(a, 0) : 0;
      for (Index c = 0; c < q.cols; ++c) of_query += w1(a, c) * q(i, c);
      for (Index j = 0; j < k.rows; ++j) {
        e(i, j) += w2(a, 0) * std::tanh(of_query + of_key[static_cast<std::size_t>(j)]);
      }
    }
  }
  return e;
}

Index t5_bucket(Index relative, bool bidirectional, Index buckets, Index max_distance) {
  const Index side = bidirectional ? buckets / 2 : buckets;
  const Index exact = side / 2;
  Index distance = relative < 0 ? -relative : relative;
  if (!bidirectional && relative > 0) distance = 0;
  Index bucket = std::min(distance, exact);
  // Bucket exact + n begins at exact·(max_distance/exact)^(n/(side − exact)).
  const long double growth =
      static_cast<long double>(max_distance) / static_cast<long double>(exact);
  while (bucket >= exact && bucket < side - 1) {
    const auto steps = static_cast<long double>(bucket + 1 - exact);
    const long double first = static_cast<long double>(exact) *
                              std::pow(growth, steps / static_cast<long double>(side - exact));
    // A whole number may come out a little too large.
    if (static_cast<long double>(distance) < first * (1 - 1e-15L)) break;
    ++bucket;
  }
  return bidirectional && relative > 0 ? bucket + side : bucket;
}

Matrix scores(const Matrix& energies, const Terms& terms) {
  Matrix s = energies;
  for (Index i = 0; i < s.rows; ++i) {
    const Index usual = terms.causal == Causal::bottom_right ? s.cols - s.rows : 0;
    const Index at = i + terms.query_offset.value_or(usual);
    for (Index j = 0; j < s.cols; ++j) {
      long double& x = s(i, j);
      if (x == minus_infinity) continue;  // ready-made
      const Index distance = at < j ? j - at : at - j;
      x *= terms.scale;
      if (terms.softcap > 0) x = terms.softcap * std::tanh(x / terms.softcap);
      if (terms.rel_bias.rows > 0) {
        const bool bidirectional = terms.causal == Causal::none;
        x += terms.rel_bias(
            t5_bucket(j - at, bidirectional, terms.rel_bias.rows, terms.max_distance), 0);
      }
      x -= static_cast<long double>(terms.alibi) * static_cast<long double>(distance);
      if (terms.bias.rows > 0) x += terms.bias(i, j);
      if (terms.preference.rows > 0) x += std::log(terms.preference(i, j));
      const bool masked = terms.mask.rows > 0 && terms.mask(i, j) == 0;
      if (masked || !in_band(terms, at, j)) x = minus_infinity;
    }
  }
  return s;
}

Matrix scores(EnergyKind kind, double scale, const Matrix& q, const Matrix& k, const Matrix& bias,
              const Matrix& mask, Causal causal) {
  Terms terms;
  terms.scale = scale;
  terms.bias = bias;
  terms.mask = mask;
  terms.causal = causal;
  return scores(energies(kind, q, k), terms);
}

Matrix project(const Matrix& x, const Matrix& w, const Matrix& bias) {
  Matrix out(x.rows, w.cols);
  for (Index i = 0; i < x.rows; ++i) {
    for (Index c = 0; c < w.cols; ++c) {
      if (bias.rows > 0) out(i, c) = bias(c, 0);
      for (Index d = 0; d < x.cols; ++d) out(i, c) += x(i, d) * w(d, c);
    }
  }
  return out;
}

}  // namespace attn::reference
