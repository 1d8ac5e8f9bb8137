#include "reference/reference_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace attn::reference {
namespace {

using Numbers = std::vector<long double>;

Matrix transposed(const Matrix& p) {
  Matrix t(p.cols, p.rows);
  for (Index i = 0; i < p.rows; ++i) {
    for (Index j = 0; j < p.cols; ++j) t(j, i) = p(i, j);
  }
  return t;
}

// l_ij − log Σ_j exp l_ij; rows with only −inf stay.
Matrix log_rows(Matrix l) {
  for (Index i = 0; i < l.rows; ++i) {
    long double largest = -std::numeric_limits<long double>::infinity();
    for (Index j = 0; j < l.cols; ++j) largest = std::max(largest, l(i, j));
    if (std::isinf(largest)) continue;
    long double sum = 0;
    for (Index j = 0; j < l.cols; ++j) sum += std::exp(l(i, j) - largest);
    for (Index j = 0; j < l.cols; ++j) l(i, j) -= largest + std::log(sum);
  }
  return l;
}

Matrix log_columns(const Matrix& l) { return transposed(log_rows(transposed(l))); }

Matrix exponentials(Matrix l) {
  for (long double& x : l.values) x = std::exp(x);
  return l;
}

// a bᵀ
Matrix product_transposed(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.rows);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < b.rows; ++j) {
      for (Index c = 0; c < a.cols; ++c) out(i, j) += a(i, c) * b(j, c);
    }
  }
  return out;
}

// Backward through log_rows, p its exponentials: dl_ij = d(log p)_ij − p_ij Σ_j d(log p)_ij.
Matrix through_log_rows(const Matrix& p, const Matrix& grad) {
  Matrix out(grad);
  for (Index i = 0; i < p.rows; ++i) {
    long double sum = 0;
    for (Index j = 0; j < p.cols; ++j) sum += grad(i, j);
    for (Index j = 0; j < p.cols; ++j) out(i, j) -= p(i, j) * sum;
  }
  return out;
}

Matrix through_log_columns(const Matrix& p, const Matrix& grad) {
  return transposed(through_log_rows(transposed(p), transposed(grad)));
}

Matrix elementwise_product(const Matrix& a, Matrix b) {
  for (std::size_t n = 0; n < b.values.size(); ++n) b.values[n] *= a.values[n];
  return b;
}

// Normalises the logarithm by columns and rows in turn; constant marginals do not matter.
Matrix alternating_gradient(const Matrix& s, Index iterations, const Matrix& grad_weights) {
  std::vector<Matrix> columns;
  std::vector<Matrix> rows;
  Matrix log(s);
  for (Index t = 0; t < iterations; ++t) {
    log = log_columns(log);
    columns.push_back(exponentials(log));
    log = log_rows(log);
    rows.push_back(exponentials(log));
  }
  Matrix grad = elementwise_product(grad_weights, rows.back());
  for (Index t = iterations; t-- > 0;) {
    grad = through_log_rows(rows[static_cast<std::size_t>(t)], grad);
    grad = through_log_columns(columns[static_cast<std::size_t>(t)], grad);
  }
  return grad;
}

Matrix softmax_gradient(const Matrix& s, const Matrix& grad_weights) {
  const Matrix p = exponentials(log_rows(s));
  return through_log_rows(p, elementwise_product(grad_weights, p));
}

}  // namespace

SchemeGradient differentiate(const Matrix& scores, Scheme scheme, double hybrid, Index iterations,
                             const Matrix& v, const Matrix& grad_out) {
  SchemeGradient gradient;
  const Matrix products = product_transposed(grad_out, v);
  switch (scheme) {
    case Scheme::unas:
    case Scheme::fenchel:
      gradient.scores = softmax_gradient(scores, products);
      break;
    case Scheme::dnas:
      gradient.scores = alternating_gradient(scores, 1, products);
      break;
    case Scheme::sinkhorn:
      gradient.scores = alternating_gradient(scores, iterations, products);
      break;
    case Scheme::transport:
      throw std::logic_error("transport needs costs, see differentiate_transport");
    case Scheme::hnas: {
      const Matrix unas = softmax_gradient(scores, products);
      const Matrix dnas = alternating_gradient(scores, 1, products);
      gradient.scores = Matrix(scores.rows, scores.cols);
      for (std::size_t n = 0; n < unas.values.size(); ++n) {
        gradient.scores.values[n] = hybrid * dnas.values[n] + (1.0L - hybrid) * unas.values[n];
      }
      const Matrix of_dnas = attend(scores, Scheme::dnas, 0, 1).weights;
      const Matrix of_unas = attend(scores, Scheme::unas, 0, 1).weights;
      for (std::size_t n = 0; n < products.values.size(); ++n) {
        gradient.hybrid += products.values[n] * (of_dnas.values[n] - of_unas.values[n]);
      }
      break;
    }
  }
  gradient.v = output(transposed(attend(scores, scheme, hybrid, iterations).weights), grad_out);
  return gradient;
}

TransportGradient differentiate_transport(const Matrix& s, const Matrix& preference,
                                          const Matrix& cost, const Matrix& grad_weights) {
  TransportGradient gradient{Matrix(s.rows, s.cols), Matrix(s.rows, s.cols),
                             Matrix(s.cols, s.cols)};
  for (Index q = 0; q < s.rows; ++q) {
    const Matrix p = transport_conditionals(s, q, cost);
    const Numbers u = transport_shares(s, preference, q);
    long double total = 0;
    for (Index i = 0; i < s.cols; ++i) {
      if (!std::isinf(s(q, i))) total += preference.rows == 0 ? 1 : preference(q, i);
    }
    Numbers means(u.size(), 0);
    long double mean = 0;
    for (Index i = 0; i < s.cols; ++i) {
      const auto at = static_cast<std::size_t>(i);
      for (Index t = 0; t < s.cols; ++t) means[at] += p(t, i) * grad_weights(q, t);
      mean += u[at] * means[at];
    }
    for (Index i = 0; i < s.cols; ++i) {
      const auto at = static_cast<std::size_t>(i);
      bool goes = false;
      for (Index t = 0; t < s.cols; ++t) {
        const long double change = u[at] * p(t, i) * (grad_weights(q, t) - means[at]);
        gradient.scores(q, t) += change;
        gradient.cost(t, i) -= change;
        goes = goes || p(t, i) > 0;
      }
      if (!goes || std::isinf(s(q, i)) || total == 0) continue;
      gradient.preference(q, i) = (means[at] - mean) / total;
    }
  }
  return gradient;
}

Matrix energy_gradient(const Matrix& grad_scores, const Matrix& energies, const Terms& terms) {
  Matrix grad(grad_scores);
  for (std::size_t n = 0; n < grad.values.size(); ++n) {
    // Ready-made scores may be −inf.
    if (std::isinf(energies.values[n])) continue;
    if (terms.softcap > 0) {
      const long double cosh = std::cosh(terms.scale * energies.values[n] / terms.softcap);
      grad.values[n] /= cosh * cosh;
    }
    grad.values[n] *= terms.scale;
  }
  return grad;
}

VectorGradients differentiate_energies(EnergyKind kind, const Matrix& q, const Matrix& k,
                                       const Matrix& grad) {
  VectorGradients gradients;
  gradients.q = Matrix(q.rows, q.cols);
  gradients.k = Matrix(k.rows, k.cols);
  const long double scale =
      kind == EnergyKind::scaled_dot ? 1 / std::sqrt(static_cast<long double>(q.cols)) : 1.0L;
  for (Index i = 0; i < q.rows; ++i) {
    for (Index j = 0; j < k.rows; ++j) {
      for (Index c = 0; c < q.cols; ++c) {
        const bool gaussian = kind == EnergyKind::gaussian;
        const long double difference = k(j, c) - q(i, c);
        gradients.q(i, c) += grad(i, j) * (gaussian ? difference : scale * k(j, c));
        gradients.k(j, c) += grad(i, j) * (gaussian ? -difference : scale * q(i, c));
      }
    }
  }
  return gradients;
}

VectorGradients differentiate_bilinear(const Matrix& q, const Matrix& k, const Matrix& w,
                                       const Matrix& grad) {
  VectorGradients gradients;
  const Matrix by_query = output(grad, k);            // (Lq, dk)
  const Matrix by_key = output(transposed(grad), q);  // (Lk, dq)
  gradients.q = product_transposed(by_query, w);
  gradients.k = output(by_key, w);
  gradients.w = output(transposed(q), by_query);
  return gradients;
}

VectorGradients differentiate_mlp(const Matrix& q, const Matrix& k, const Matrix& w1,
                                  const Matrix& w2, const Matrix& b1, const Matrix& grad) {
  VectorGradients gradients;
  gradients.q = Matrix(q.rows, q.cols);
  gradients.k = Matrix(k.rows, k.cols);
  gradients.w = Matrix(w1.rows, w1.cols);
  gradients.w2 = Matrix(w1.rows, 1);
  gradients.b1 = Matrix(w1.rows, 1);
  for (Index a = 0; a < w1.rows; ++a) {
    Numbers of_key(static_cast<std::size_t>(k.rows), 0);
    for (Index j = 0; j < k.rows; ++j) {
      for (Index c = 0; c < k.cols; ++c) {
        of_key[static_cast<std::size_t>(j)] += w1(a, q.cols + c) * k(j, c);
      }
    }
    for (Index i = 0; i < q.rows; ++i) {
      long double of_query = b1.rows > 0 ? b1(a, 0) : 0;
      for (Index c = 0; c < q.cols; ++c) of_query += w1(a, c) * q(i, c);
      for (Index j = 0; j < k.rows; ++j) {
        const long double x = of_query + of_key[static_cast<std::size_t>(j)];
        const long double slope = w2(a, 0) * grad(i, j) / (std::cosh(x) * std::cosh(x));
        gradients.w2(a, 0) += grad(i, j) * std::tanh(x);
        gradients.b1(a, 0) += slope;
        for (Index c = 0; c < q.cols; ++c) {
          gradients.q(i, c) += slope * w1(a, c);
          gradients.w(a, c) += slope * q(i, c);
        }
        for (Index c = 0; c < k.cols; ++c) {
          gradients.k(j, c) += slope * w1(a, q.cols + c);
          gradients.w(a, q.cols + c) += slope * k(j, c);
        }
      }
    }
  }
  return gradients;
}

Matrix central_differences(Matrix& x, const std::function<long double()>& loss, long double step) {
  Matrix gradient(x.rows, x.cols);
  for (std::size_t n = 0; n < x.values.size(); ++n) {
    const long double at = x.values[n];
    if (!std::isfinite(at)) continue;
    x.values[n] = at + step;
    const long double above = loss();
    x.values[n] = at - step;
    gradient.values[n] = (above - loss()) / (2 * step);
    x.values[n] = at;
  }
  return gradient;
}

}  // namespace attn::reference
