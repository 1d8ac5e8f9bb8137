#include "reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tensor/infinity.hpp"

namespace attn::reference {
namespace {

// log Σ exp of term(0) ... term(count - 1), which may be −inf.
template <class Term>
long double log_sum_exp(Index count, const Term& term) {
  long double largest = minus_infinity;
  for (Index n = 0; n < count; ++n) largest = std::max(largest, term(n));
  if (largest == minus_infinity) return minus_infinity;
  long double sum = 0;
  for (Index n = 0; n < count; ++n) sum += std::exp(term(n) - largest);
  return largest + std::log(sum);
}

// a − b, where −inf in either makes it −inf.
long double less(long double a, long double b) {
  return a == minus_infinity || b == minus_infinity ? minus_infinity : a - b;
}

std::vector<long double> column_potential(const Matrix& s, const std::vector<long double>& f,
                                          long double log_b) {
  std::vector<long double> g(static_cast<std::size_t>(s.cols));
  for (Index j = 0; j < s.cols; ++j) {
    const auto term = [&](Index i) { return less(s(i, j), f[static_cast<std::size_t>(i)]); };
    g[static_cast<std::size_t>(j)] = less(log_sum_exp(s.rows, term), log_b);
  }
  return g;
}

std::vector<long double> row_potential(const Matrix& s, const std::vector<long double>& g) {
  std::vector<long double> f(static_cast<std::size_t>(s.rows));
  for (Index i = 0; i < s.rows; ++i) {
    const auto term = [&](Index j) { return less(s(i, j), g[static_cast<std::size_t>(j)]); };
    f[static_cast<std::size_t>(i)] = log_sum_exp(s.cols, term);
  }
  return f;
}

void add_weights(Matrix& weights, long double coefficient, const Matrix& s,
                 const std::vector<long double>& f, const std::vector<long double>& g) {
  for (Index i = 0; i < s.rows; ++i) {
    for (Index j = 0; j < s.cols; ++j) {
      const long double x =
          less(less(s(i, j), g[static_cast<std::size_t>(j)]), f[static_cast<std::size_t>(i)]);
      weights(i, j) += coefficient * std::exp(x);
    }
  }
}

// log (queries with a key / keys with a query).
long double log_open_ratio(const Matrix& s) {
  Index queries = 0;
  Index keys = 0;
  for (Index i = 0; i < s.rows; ++i) {
    bool open = false;
    for (Index j = 0; j < s.cols; ++j) open = open || s(i, j) != minus_infinity;
    queries += open ? 1 : 0;
  }
  for (Index j = 0; j < s.cols; ++j) {
    bool open = false;
    for (Index i = 0; i < s.rows; ++i) open = open || s(i, j) != minus_infinity;
    keys += open ? 1 : 0;
  }
  if (keys == 0) return 0;
  return std::log(static_cast<long double>(queries) / static_cast<long double>(keys));
}

}  // namespace

Matrix fenchel_weights(const Matrix& s, const Matrix& preference) {
  Matrix p(s.rows, s.cols);
  for (Index i = 0; i < s.rows; ++i) {
    long double largest = minus_infinity;
    for (Index j = 0; j < s.cols; ++j) {
      if (preference(i, j) > 0) largest = std::max(largest, s(i, j));
    }
    if (largest == minus_infinity) continue;
    long double sum = 0;
    for (Index j = 0; j < s.cols; ++j) {
      if (preference(i, j) > 0) p(i, j) = preference(i, j) * std::exp(s(i, j) - largest);
      sum += p(i, j);
    }
    for (Index j = 0; j < s.cols; ++j) p(i, j) /= sum;
  }
  return p;
}

Matrix transport_conditionals(const Matrix& s, Index query, const Matrix& cost) {
  Matrix p(s.cols, s.cols);
  for (Index i = 0; i < s.cols; ++i) {
    const auto logit = [&](Index t) {
      const bool allowed = s(query, t) != minus_infinity && !std::isinf(cost(t, i));
      return allowed ? s(query, t) - cost(t, i) : static_cast<long double>(minus_infinity);
    };
    const long double total = log_sum_exp(s.cols, logit);
    for (Index t = 0; t < s.cols; ++t) p(t, i) = std::exp(less(logit(t), total));
  }
  return p;
}

std::vector<long double> transport_shares(const Matrix& s, const Matrix& preference, Index query) {
  std::vector<long double> u(static_cast<std::size_t>(s.cols), 0);
  long double sum = 0;
  for (Index i = 0; i < s.cols; ++i) {
    long double& share = u[static_cast<std::size_t>(i)];
    if (s(query, i) != minus_infinity) share = preference.rows == 0 ? 1 : preference(query, i);
    sum += share;
  }
  for (long double& share : u) share = sum > 0 ? share / sum : 0;
  return u;
}

Matrix transport_weights(const Matrix& s, const Matrix& preference, const Matrix& cost) {
  Matrix w(s.rows, s.cols);
  for (Index q = 0; q < s.rows; ++q) {
    const Matrix p = transport_conditionals(s, q, cost);
    const auto u = transport_shares(s, preference, q);
    for (Index t = 0; t < s.cols; ++t) {
      for (Index i = 0; i < s.cols; ++i) w(q, t) += u[static_cast<std::size_t>(i)] * p(t, i);
    }
  }
  return w;
}

Result attend(const Matrix& s, Scheme scheme, double hybrid, Index iterations) {
  Result result;
  result.weights = Matrix(s.rows, s.cols);
  const std::vector<long double> zero_row(static_cast<std::size_t>(s.rows), 0);
  const std::vector<long double> zero_col(static_cast<std::size_t>(s.cols), 0);
  switch (scheme) {
    case Scheme::unas:
    case Scheme::fenchel:
      result.col = zero_col;
      result.row = row_potential(s, result.col);
      add_weights(result.weights, 1, s, result.row, result.col);
      break;
    case Scheme::dnas:
      result.col = column_potential(s, zero_row, 0);
      result.row = row_potential(s, result.col);
      add_weights(result.weights, 1, s, result.row, result.col);
      break;
    case Scheme::hnas:
      result.unas_row = row_potential(s, zero_col);
      result.col = column_potential(s, zero_row, 0);
      result.row = row_potential(s, result.col);
      add_weights(result.weights, hybrid, s, result.row, result.col);
      add_weights(result.weights, 1.0L - hybrid, s, result.unas_row, zero_col);
      break;
    case Scheme::transport:
      throw std::logic_error("transport needs costs, see transport_weights");
    case Scheme::sinkhorn: {
      const long double log_b = log_open_ratio(s);
      result.row = zero_row;
      for (Index t = 0; t < iterations; ++t) {
        result.col = column_potential(s, result.row, log_b);
        result.row = row_potential(s, result.col);
      }
      add_weights(result.weights, 1, s, result.row, result.col);
      break;
    }
  }
  return result;
}

Matrix output(const Matrix& weights, const Matrix& v) {
  Matrix out(weights.rows, v.cols);
  for (Index i = 0; i < weights.rows; ++i) {
    for (Index j = 0; j < weights.cols; ++j) {
      for (Index c = 0; c < v.cols; ++c) out(i, c) += weights(i, j) * v(j, c);
    }
  }
  return out;
}

std::vector<long double> column_sums(const Matrix& weights) {
  std::vector<long double> sums(static_cast<std::size_t>(weights.cols), 0);
  for (Index i = 0; i < weights.rows; ++i) {
    for (Index j = 0; j < weights.cols; ++j) sums[static_cast<std::size_t>(j)] += weights(i, j);
  }
  return sums;
}

std::vector<long double> row_entropies(const Matrix& weights) {
  std::vector<long double> entropies(static_cast<std::size_t>(weights.rows), 0);
  for (Index i = 0; i < weights.rows; ++i) {
    for (Index j = 0; j < weights.cols; ++j) {
      const long double p = weights(i, j);
      if (p > 0) entropies[static_cast<std::size_t>(i)] -= p * std::log(p);
    }
  }
  return entropies;
}

}  // namespace attn::reference
