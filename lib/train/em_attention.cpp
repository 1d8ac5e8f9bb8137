#include "train/em_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "train/rows.hpp"

namespace attn::train {
namespace {

using Matrix = Rows<double>;

// The mixture before a step.
struct Mixture {
  Matrix centre;                  // q (n, d)
  std::vector<double> log_prior;  // log β, up to a constant
  std::vector<double> variance;   // σ²
};

// What a step makes of a mixture.
struct EmStep {
  Matrix share;                 // ξ (n, m)
  Matrix weights;               // π (n, m)
  std::vector<double> log_sum;  // log Σ_j ξ_ij
  std::vector<double> spread;   // Σ_j π_ij ‖k_j − q_i‖² / d with the new q
};

template <class T>
Matrix scaled_rows(MatrixView<const T> from) {
  const double factor = 1 / std::sqrt(std::sqrt(static_cast<double>(from.cols)));
  Matrix made(from.rows, from.cols);
  for (Index n = 0; n < made.size(); ++n)
    made.data()[n] = factor * static_cast<double>(from.data[n]);
  return made;
}

double squared_distance(const double* a, const double* b, Index n) {
  double sum = 0;
  for (Index c = 0; c < n; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

// log Σ_n exp(values[n·stride]).
double log_sum_exp(const double* values, Index count, Index stride) {
  double largest = -std::numeric_limits<double>::infinity();
  for (Index n = 0; n < count; ++n) largest = std::max(largest, values[n * stride]);
  double sum = 0;
  for (Index n = 0; n < count; ++n) sum += std::exp(values[n * stride] - largest);
  return largest + std::log(sum);
}

Mixture first_mixture(Matrix q) {
  const auto n = static_cast<std::size_t>(q.rows());
  Mixture mixture = {std::move(q), std::vector<double>(n), std::vector<double>(n, 1.0)};
  const Matrix origin = Matrix::zeros(1, mixture.centre.cols());
  for (std::size_t i = 0; i < n; ++i) {
    mixture.log_prior[i] = squared_distance(mixture.centre.view().row(static_cast<Index>(i)),
                                            origin.data(), origin.cols()) /
                           2;
  }
  return mixture;
}

EmStep em_step_of(const Mixture& mixture, const Matrix& k) {
  const Index n = mixture.centre.rows();
  const Index m = k.rows();
  const Index d = k.cols();
  EmStep step = {Matrix(n, m), Matrix(n, m), std::vector<double>(static_cast<std::size_t>(n)), {}};
  MatrixView<double> logs = step.share.view();
  for (Index i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double variance = mixture.variance[at];
    for (Index j = 0; j < m; ++j) {
      logs(i, j) =
          mixture.log_prior[at] - static_cast<double>(d) / 2 * std::log(variance) -
          squared_distance(k.view().row(j), mixture.centre.view().row(i), d) / (2 * variance);
    }
  }
  for (Index j = 0; j < m; ++j) {
    const double sum = log_sum_exp(logs.data + j, n, m);
    for (Index i = 0; i < n; ++i) logs(i, j) -= sum;
  }
  for (Index i = 0; i < n; ++i) {
    const double sum = log_sum_exp(logs.row(i), m, 1);
    step.log_sum[static_cast<std::size_t>(i)] = sum;
    for (Index j = 0; j < m; ++j) {
      step.weights.view()(i, j) = std::exp(logs(i, j) - sum);
      logs(i, j) = std::exp(logs(i, j));
    }
  }
  return step;
}

// π x.
Matrix weighted_rows(const Matrix& weights, const Matrix& x) {
  Matrix sum = Matrix::zeros(weights.rows(), x.cols());
  for (Index i = 0; i < weights.rows(); ++i) {
    for (Index j = 0; j < x.rows(); ++j) {
      for (Index c = 0; c < x.cols(); ++c) {
        sum.view()(i, c) += weights.view()(i, j) * x.view()(j, c);
      }
    }
  }
  return sum;
}

Mixture next_mixture(const EmScheme& scheme, const Mixture& from, const Matrix& k, EmStep& step) {
  Mixture next = {weighted_rows(step.weights, k), step.log_sum, from.variance};
  for (double& log_prior : next.log_prior) log_prior -= std::log(static_cast<double>(k.rows()));
  if (!scheme.estimates_variance) return next;
  for (Index i = 0; i < from.centre.rows(); ++i) {
    double spread = 0;
    for (Index j = 0; j < k.rows(); ++j) {
      spread += step.weights.view()(i, j) *
                squared_distance(k.view().row(j), next.centre.view().row(i), k.cols());
    }
    step.spread.push_back(spread / static_cast<double>(k.cols()));
    next.variance[static_cast<std::size_t>(i)] = std::max(least_variance, step.spread.back());
  }
  return next;
}

// All steps: mixtures[t] is the one before step t.
struct EmRun {
  std::vector<Mixture> mixtures;
  std::vector<EmStep> steps;
};

EmRun em_run(const EmScheme& scheme, Matrix q, const Matrix& k) {
  EmRun run;
  run.mixtures.push_back(first_mixture(std::move(q)));
  for (Index t = 0; t < scheme.iterations; ++t) {
    run.steps.push_back(em_step_of(run.mixtures.back(), k));
    if (t + 1 == scheme.iterations) break;
    run.mixtures.push_back(next_mixture(scheme, run.mixtures.back(), k, run.steps.back()));
  }
  return run;
}

// The gradients of what a mixture consists of.
struct MixtureGradients {
  Matrix centre;
  std::vector<double> log_prior;
  std::vector<double> variance;
};

MixtureGradients no_gradients(Index n, Index d) {
  const auto count = static_cast<std::size_t>(n);
  return {Matrix::zeros(n, d), std::vector<double>(count), std::vector<double>(count)};
}

// From the gradients of the next mixture to those of π, of which `dweights` has others already, and
// of the keys.
void back_to_weights(const EmScheme& scheme, const EmStep& step, const Mixture& next,
                     const MixtureGradients& dnext, const Matrix& k, Matrix& dweights, Matrix& dk) {
  const Index d = k.cols();
  for (Index i = 0; i < next.centre.rows(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool varies = scheme.estimates_variance && step.spread[at] > least_variance;
    const double dspread = varies ? dnext.variance[at] / static_cast<double>(d) : 0;
    const double* const centre = next.centre.view().row(i);
    const double* const dcentre = dnext.centre.view().row(i);
    for (Index j = 0; j < k.rows(); ++j) {
      const double* const key = k.view().row(j);
      const double weight = step.weights.view()(i, j);
      double sum = dspread * squared_distance(key, centre, d);
      // The spread does not change with q_i, to first order: q_i is the mean of the keys.
      for (Index c = 0; c < d; ++c) {
        sum += dcentre[c] * key[c];
        dk.view()(j, c) += weight * (dcentre[c] + 2 * dspread * (key[c] - centre[c]));
      }
      dweights.view()(i, j) += sum;
    }
  }
}

// From the gradients of π and of log Σ_j ξ_ij to those of the mixture before the step, and of the
// keys.
MixtureGradients back_to_mixture(const EmStep& step, const Mixture& from, const Matrix& dweights,
                                 const std::vector<double>& dlog_sum, const Matrix& k, Matrix& dk) {
  const Index n = from.centre.rows();
  const Index m = k.rows();
  const Index d = k.cols();
  Matrix dlog_share(n, m);
  std::vector<double> by_key(static_cast<std::size_t>(m));
  for (Index i = 0; i < n; ++i) {
    const double* const weights = step.weights.view().row(i);
    double mean = 0;
    for (Index j = 0; j < m; ++j) mean += weights[j] * dweights.view()(i, j);
    for (Index j = 0; j < m; ++j) {
      double& found = dlog_share.view()(i, j);
      found = weights[j] * (dweights.view()(i, j) - mean + dlog_sum[static_cast<std::size_t>(i)]);
      by_key[static_cast<std::size_t>(j)] += found;
    }
  }
  MixtureGradients found = no_gradients(n, d);
  for (Index i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double variance = from.variance[at];
    const double* const centre = from.centre.view().row(i);
    for (Index j = 0; j < m; ++j) {
      const double* const key = k.view().row(j);
      const double ds =
          dlog_share.view()(i, j) - step.share.view()(i, j) * by_key[static_cast<std::size_t>(j)];
      found.log_prior[at] += ds;
      found.variance[at] += ds *
                            (squared_distance(key, centre, d) / variance - static_cast<double>(d)) /
                            (2 * variance);
      for (Index c = 0; c < d; ++c) {
        const double towards = ds * (key[c] - centre[c]) / variance;
        found.centre.view()(i, c) += towards;
        dk.view()(j, c) -= towards;
      }
    }
  }
  return found;
}

template <class T>
void write_scaled(const Matrix& from, MatrixView<T> to) {
  const double factor = 1 / std::sqrt(std::sqrt(static_cast<double>(from.cols())));
  for (Index n = 0; n < from.size(); ++n) to.data[n] = static_cast<T>(factor * from.data()[n]);
}

}  // namespace

template <class T>
void em_attention(const EmScheme& scheme, MatrixView<const T> q, MatrixView<const T> k,
                  MatrixView<const T> v, MatrixView<T> out, double* column_sums) {
  set_to_zero(out);
  if (column_sums != nullptr) std::fill_n(column_sums, k.rows, 0.0);
  if (q.rows == 0 || k.rows == 0) return;
  const EmRun run = em_run(scheme, scaled_rows(q), scaled_rows(k));
  const Matrix& weights = run.steps.back().weights;
  std::vector<double> sums(static_cast<std::size_t>(v.cols));
  for (Index i = 0; i < q.rows; ++i) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (Index j = 0; j < k.rows; ++j) {
      const double weight = weights.view()(i, j);
      if (column_sums != nullptr) column_sums[j] += weight;
      for (Index c = 0; c < v.cols; ++c) {
        sums[static_cast<std::size_t>(c)] += weight * static_cast<double>(v(j, c));
      }
    }
    std::transform(sums.begin(), sums.end(), out.row(i),
                   [](double x) { return static_cast<T>(x); });
  }
}

template <class T>
void em_attention_gradients(const EmScheme& scheme, MatrixView<const T> q, MatrixView<const T> k,
                            MatrixView<const T> v, MatrixView<const T> grad_out, MatrixView<T> dq,
                            MatrixView<T> dk, MatrixView<T> dv) {
  for (const MatrixView<T>& one : {dq, dk, dv}) {
    if (one.data != nullptr) set_to_zero(one);
  }
  if (q.rows == 0 || k.rows == 0) return;
  const Matrix keys = scaled_rows(k);
  const EmRun run = em_run(scheme, scaled_rows(q), keys);
  Matrix dkeys = Matrix::zeros(k.rows, k.cols);
  MixtureGradients dmixture = no_gradients(q.rows, q.cols);
  for (std::size_t t = run.steps.size(); t-- > 0;) {
    const EmStep& step = run.steps[t];
    Matrix dweights = Matrix::zeros(q.rows, k.rows);
    std::vector<double> dlog_sum(static_cast<std::size_t>(q.rows));
    if (t + 1 == run.steps.size()) {
      for (Index i = 0; i < q.rows; ++i) {
        for (Index j = 0; j < k.rows; ++j) {
          const T weight = static_cast<T>(step.weights.view()(i, j));
          for (Index c = 0; c < v.cols; ++c) {
            dweights.view()(i, j) +=
                static_cast<double>(grad_out(i, c)) * static_cast<double>(v(j, c));
            if (dv.data != nullptr) dv(j, c) += weight * grad_out(i, c);
          }
        }
      }
    } else {
      back_to_weights(scheme, step, run.mixtures[t + 1], dmixture, keys, dweights, dkeys);
      dlog_sum = dmixture.log_prior;
    }
    // A variance that is not estimated goes on to no earlier step.
    dmixture = back_to_mixture(step, run.mixtures[t], dweights, dlog_sum, keys, dkeys);
  }
  // log β_i = ½‖q_i‖² at the start.
  for (Index i = 0; i < q.rows; ++i) {
    for (Index c = 0; c < q.cols; ++c) {
      dmixture.centre.view()(i, c) += dmixture.log_prior[static_cast<std::size_t>(i)] *
                                      run.mixtures.front().centre.view()(i, c);
    }
  }
  write_scaled(dmixture.centre, dq);
  write_scaled(dkeys, dk);
}

#define ATTN_EM_ATTENTION(T)                                                                      \
  template void em_attention(const EmScheme&, MatrixView<const T>, MatrixView<const T>,           \
                             MatrixView<const T>, MatrixView<T>, double*);                        \
  template void em_attention_gradients(const EmScheme&, MatrixView<const T>, MatrixView<const T>, \
                                       MatrixView<const T>, MatrixView<const T>, MatrixView<T>,   \
                                       MatrixView<T>, MatrixView<T>);
ATTN_EM_ATTENTION(float)
ATTN_EM_ATTENTION(double)
#undef ATTN_EM_ATTENTION

}  // namespace attn::train
