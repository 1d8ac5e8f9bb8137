#include "paths/step.hpp"

#include <algorithm>
#include <cmath>

#include "parallel/parallel_for.hpp"
#include "paths/adam_step.hpp"
#include "paths/descent_step.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// Columns of a stripe, which a thread works on at once: a few cache lines of each row.
constexpr Index stripe_columns = 128;

template <class T, class Update>
void step_weights(const StepMatrices<T>& m, const Update& update, Index first, Index last) {
  for (Index i = 0; i < m.wq.rows; ++i) {
    for (Index c = first; c < last; ++c) {
      const double w = m.wq(i, c);
      m.wq(i, c) = static_cast<T>(w - update(i, c, m.grad_wq(i, c), w));
    }
  }
  for (Index j = 0; j < m.wk.rows; ++j) {
    for (Index c = first; c < last; ++c) {
      const double w = m.wk(j, c);
      m.wk(j, c) = static_cast<T>(w - update(m.wq.rows + j, c, m.grad_wk(j, c), w));
    }
  }
}

// Moves a stripe of columns by one step.
template <class T, class Update>
class PathStep {
 public:
  PathStep(const StepOptions& options, const Skeleton& skeleton, const StepMatrices<T>& matrices,
           const Update& update, Index first, Index last)
      : options_(options),
        skeleton_(skeleton),
        m_(matrices),
        update_(update),
        printed_(options.optimizer == Optimizer::si_sgd_printed),
        first_(first),
        last_(last),
        columns_(static_cast<std::size_t>(last - first)) {}

  StepSummary run() {
    sum_columns();
    for (Index c = first_; c < last_; ++c) step_skeleton(c);
    step_queries();
    step_keys();
    for (Index c = first_; c < last_; ++c) {
      const Column& column = at(c);
      if (column.moves) m_.wq(skeleton_.q_of(c), c) = static_cast<T>(column.q * column.ratio);
    }
    return std::move(summary_);
  }

 private:
  struct Column {
    double q = 0;  // the skeleton's weights before the step; k as in the formulas
    double k = 0;
    double ratio = 1;
    bool moves = true;
    double others = 0;   // Σ_{j≠S} G_K[j] W_K[j]
    double queries = 0;  // Σ_i G_Q[i] W_Q[i]
    double size = 0;     // sum of the magnitudes of the terms of both sums
  };

  Column& at(Index c) { return columns_[static_cast<std::size_t>(c - first_)]; }

  void sum_columns() {
    for (Index i = 0; i < m_.wq.rows; ++i) {
      for (Index c = first_; c < last_; ++c) {
        const double of_q = static_cast<double>(m_.grad_wq(i, c)) * m_.wq(i, c);
        const double of_k = static_cast<double>(m_.grad_wk(i, c)) * m_.wk(i, c);
        Column& column = at(c);
        column.queries += of_q;
        column.others += i == skeleton_.k_of(c) ? 0 : of_k;
        column.size += std::abs(of_q) + std::abs(of_k);
      }
    }
  }

  void step_skeleton(Index c) {
    Column& column = at(c);
    const Index row = skeleton_.q_of(c);
    const Index row_k = skeleton_.k_of(c);
    column.q = m_.wq(row, c);
    const double k = m_.wk(row_k, c);
    column.k = printed_ ? 1 : k;
    if (column.size > 0) {
      const double keys = column.others + static_cast<double>(m_.grad_wk(row_k, c)) * k;
      summary_.inconsistency =
          std::max(summary_.inconsistency, std::abs(column.queries - keys) / column.size);
    }
    const KeptMoment<T> first(m_.first_moment, row, c);
    const KeptMoment<T> second(m_.second_moment, row, c);
    const double gradient = (m_.grad_wq(row, c) - column.others / column.q) / column.k;
    column.ratio = 1 - update_(row, c, gradient, column.q * k) / column.q / column.k;
    if (column.q == 0 || k == 0) column.ratio = std::numeric_limits<double>::quiet_NaN();
    summary_.least_ratio = std::min(summary_.least_ratio, column.ratio);
    summary_.largest_ratio = std::max(summary_.largest_ratio, column.ratio);
    if (column.ratio >= options_.min_ratio && std::isfinite(column.ratio)) return;
    summary_.singular.push_back({c, column.ratio});
    if (options_.clips && std::isfinite(column.ratio)) {
      column.ratio = options_.min_ratio;
      return;
    }
    column.moves = false;
    first.restore();
    second.restore();
  }

  void step_queries() {
    for (Index i = 0; i < m_.wq.rows; ++i) {
      for (Index c = first_; c < last_; ++c) {
        const Column& column = at(c);
        if (!column.moves || i == skeleton_.q_of(c)) continue;
        const double w = m_.wq(i, c);
        const double by = update_(i, c, m_.grad_wq(i, c) / column.k, w * column.k);
        m_.wq(i, c) = static_cast<T>(w - by / column.k);
      }
    }
  }

  void step_keys() {
    const Index rows = m_.wk.rows;
    for (Index j = 0; j < rows; ++j) {
      for (Index c = first_; c < last_; ++c) {
        const Column& column = at(c);
        const Index skipped = skeleton_.k_of(c);
        if (!column.moves || j == skipped) continue;
        const Index row = rows + j - (j > skipped ? 1 : 0);
        const double w = m_.wk(j, c);
        const double by = update_(row, c, m_.grad_wk(j, c) / column.q, w * column.q);
        const double moved = w - (printed_ ? by : by / column.q);
        m_.wk(j, c) = static_cast<T>(moved / column.ratio);
      }
    }
  }

  const StepOptions& options_;
  const Skeleton& skeleton_;
  const StepMatrices<T>& m_;
  const Update& update_;
  bool printed_;
  Index first_;
  Index last_;
  PooledVector<Column> columns_;
  StepSummary summary_;
};

template <class T, class Update>
StepSummary step_by(const StepOptions& options, const Skeleton& skeleton,
                    const StepMatrices<T>& matrices, const Update& update, int threads) {
  const Index columns = matrices.wq.cols;
  const Index stripes = (columns + stripe_columns - 1) / stripe_columns;
  PooledVector<StepSummary> parts(static_cast<std::size_t>(stripes));
  parallel_for(stripes, threads, [&](Index n, int) {
    const Index first = n * stripe_columns;
    const Index last = std::min(columns, first + stripe_columns);
    if (steps_in_paths(options.optimizer)) {
      PathStep<T, Update> path_step(options, skeleton, matrices, update, first, last);
      parts[static_cast<std::size_t>(n)] = path_step.run();
    } else {
      step_weights(matrices, update, first, last);
    }
  });
  StepSummary summary;
  for (const StepSummary& part : parts) summary.add(part, 0);
  return summary;
}

}  // namespace

void StepSummary::add(const StepSummary& more, Index first) {
  for (const SingularColumn& column : more.singular) {
    singular.push_back({first + column.col, column.ratio});
  }
  least_ratio = std::min(least_ratio, more.least_ratio);
  largest_ratio = std::max(largest_ratio, more.largest_ratio);
  inconsistency = std::max(inconsistency, more.inconsistency);
}

bool steps_in_paths(Optimizer optimizer) {
  return optimizer != Optimizer::sgd && optimizer != Optimizer::adam;
}

bool keeps_moments(Optimizer optimizer) {
  return optimizer == Optimizer::adam || optimizer == Optimizer::si_adam;
}

bool keeps_first_moment(const StepOptions& options) {
  return keeps_moments(options.optimizer) || options.momentum != 0;
}

template <class T>
double squared_path_gradients(const Skeleton& skeleton, const StepMatrices<const T>& m) {
  double total = 0;
  for (Index c = 0; c < m.wq.cols; ++c) {
    const Index row_q = skeleton.q_of(c);
    const Index row_k = skeleton.k_of(c);
    const double q = m.wq(row_q, c);
    const double k = m.wk(row_k, c);
    if (q == 0 || k == 0) continue;
    double others = 0;
    for (Index j = 0; j < m.wk.rows; ++j) {
      if (j == row_k) continue;
      const double gradient = m.grad_wk(j, c) / q;
      others += static_cast<double>(m.grad_wk(j, c)) * m.wk(j, c);
      total += gradient * gradient;
    }
    for (Index i = 0; i < m.wq.rows; ++i) {
      const double of_others = i == row_q ? others / q : 0;
      const double gradient = (m.grad_wq(i, c) - of_others) / k;
      total += gradient * gradient;
    }
  }
  return total;
}

template <class T>
StepSummary step(const StepOptions& options, const Skeleton& skeleton,
                 const StepMatrices<T>& matrices, int threads) {
  if (keeps_moments(options.optimizer)) {
    return step_by(options, skeleton, matrices,
                   AdamStep<T>(options, matrices.first_moment, matrices.second_moment), threads);
  }
  return step_by(options, skeleton, matrices, DescentStep<T>(options, matrices.first_moment),
                 threads);
}

template double squared_path_gradients(const Skeleton&, const StepMatrices<const float>&);
template double squared_path_gradients(const Skeleton&, const StepMatrices<const double>&);

template StepSummary step(const StepOptions&, const Skeleton&, const StepMatrices<float>&, int);
template StepSummary step(const StepOptions&, const Skeleton&, const StepMatrices<double>&, int);

}  // namespace attn
