// Sinkhorn's iterations as products with a kernel, and when these end.

#include <algorithm>
#include <cmath>
#include <utility>

#include "sinkhorn/iteration_range.hpp"
#include "sinkhorn/scaling_pass.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "tensor/infinity.hpp"

namespace attn {

// c_j = b_j exp(g'_j − g_j); rows are exact. Lines with marginal 0 add 0.
template <class T>
MarginalErrors SinkhornIteration<T>::errors_of(std::span<const double> col,
                                               std::span<const double> row,
                                               std::span<const double> next) const {
  MarginalErrors errors;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isinf(row[i])) errors.row += row_marginal_.empty() ? 1 : row_marginal_[i];
  }
  for (std::size_t j = 0; j < col.size(); ++j) {
    const double b = col_marginal_.empty() ? 1 : col_marginal_[j];
    errors.col += b * (std::isinf(col[j]) ? 1 : std::abs(std::expm1(next[j] - col[j])));
  }
  return errors;
}

// The errors of the plan with factors ρ, κ and sums r, c. Unless rows are relaxed, rows with an
// allowed pair are exact.
template <class T>
MarginalErrors SinkhornIteration<T>::product_errors(std::span<const double> row_sum,
                                                    std::span<const double> col_sum,
                                                    std::span<const double> row_factor,
                                                    std::span<const double> col_factor,
                                                    bool relaxed) const {
  MarginalErrors errors;
  for (std::size_t i = 0; i < row_sum.size(); ++i) {
    const double a = row_marginal_.empty() ? 1 : row_marginal_[i];
    if (relaxed || row_factor[i] == 0) errors.row += std::abs(row_factor[i] * row_sum[i] - a);
  }
  for (std::size_t j = 0; j < col_sum.size(); ++j) {
    const double b = col_marginal_.empty() ? 1 : col_marginal_[j];
    errors.col += std::abs(col_factor[j] * col_sum[j] - b);
  }
  return errors;
}

// The next κ; false if one is out of range.
template <class T>
bool SinkhornIteration<T>::next_columns(std::span<const double> sum, double relaxation,
                                        std::span<double> factor) const {
  const double most = std::exp(most_from_reference<T>(kernel_.refers_to_zero()));
  bool in_range = true;
  for (std::size_t j = 0; j < sum.size(); ++j) {
    if (factor[j] == 0) continue;
    const double b = col_marginal_.empty() ? 1 : col_marginal_[j];
    const double exact = b / sum[j];
    factor[j] = relaxation == 1 ? exact : factor[j] * std::pow(exact / factor[j], relaxation);
    in_range = in_range && factor[j] <= most && factor[j] * most >= 1;
  }
  return in_range;
}

// Iterates while potentials are in range of the reference, which moves to the potentials while this
// is safe. After Left::range, `col` is the g to continue from.
template <class T>
typename SinkhornIteration<T>::Left SinkhornIteration<T>::products(
    std::span<double> col, std::span<double> row, bool have_row, std::optional<double>& relaxation,
    const IterationCallback& callback, const IterationWatch& watch, const IterationState* from) {
  PooledVector<double> col_factor, row_factor;
  PooledVector<double> row_sum(row.size());
  PooledVector<double> col_sum(col.size());
  PooledVector<double> row_shift;
  const auto absorb = [&] {
    if (!have_row || !can_absorb(row, col)) return false;
    kernel_.refer_to(row, col);
    return find_factors(col, col_factor);
  };
  if (from == nullptr && !find_factors(col, col_factor) && !absorb()) return Left::range;
  const auto take_row_factors = [&] {
    row_factor.assign(row.size(), 0.0);
    for (std::size_t i = 0; have_row && i < row.size(); ++i) {
      if (row[i] != minus_infinity) {
        row_factor[i] = std::exp(kernel_.row_reference(static_cast<Index>(i)) - row[i]);
      }
    }
  };
  if (from == nullptr) {
    take_row_factors();
  } else {
    col_factor = from->col_factor;
    row_factor = from->row_factor;
  }
  row_shift = soft_shift();

  for (;;) {
    if (watch) {
      IterationState now = state(*relaxation, have_row);
      now.row_factor = row_factor;
      now.col_factor = col_factor;
      watch(std::move(now));
    }
    ScalingPass pass;
    pass.col_scale = col_factor;
    pass.row_scale = row_marginal_;
    pass.row_sum = row_sum;
    pass.col_sum = col_sum;
    pass.row_factor = row_factor;
    pass.relaxation = *relaxation;
    pass.row_shift = row_shift;
    if (marginals_.penalties) pass.row_exponent = soft_exponent(marginals_.penalties->row);
    passes_.run(pass);
    if (!rows_in_range(row_sum, row_factor)) {
      set_col_potentials(col_factor, col);
      return Left::range;
    }
    have_row = true;
    relaxation =
        callback(marginals_.penalties
                     ? soft_errors(row_sum, col_sum, row_factor, col_factor, *relaxation != 1)
                     : product_errors(row_sum, col_sum, row_factor, col_factor, *relaxation != 1));
    if (!relaxation) {
      set_row_potentials(row_factor, row);
      set_col_potentials(col_factor, col);
      return Left::ended;
    }
    bool in_range = false;
    if (marginals_.penalties) {
      set_row_potentials(row_factor, row);
      if (!soft_columns(row, col_sum, col_factor, *relaxation, col)) return Left::range;
      in_range = find_factors(col, col_factor);
    } else {
      in_range = next_columns(col_sum, *relaxation, col_factor);
    }
    if (in_range) continue;
    if (!marginals_.penalties) {
      set_row_potentials(row_factor, row);
      set_col_potentials(col_factor, col);
    }
    if (!absorb()) return Left::range;
    take_row_factors();
    row_shift = soft_shift();
  }
}

// The state without factors and potentials.
template <class T>
IterationState SinkhornIteration<T>::state(double relaxation, bool have_row) const {
  IterationState now;
  now.relaxation = relaxation;
  now.have_row = have_row;
  now.refers_to_zero = kernel_.refers_to_zero();
  if (!kernel_.refers() || now.refers_to_zero) return now;
  // References of masked lines are +inf.
  const auto given = [](double reference) {
    return std::isinf(reference) ? -reference : reference;
  };
  for (Index i = 0; i < scores_.rows(); ++i) {
    now.row_reference.push_back(given(kernel_.row_reference(i)));
  }
  for (Index j = 0; j < scores_.cols(); ++j) {
    now.col_reference.push_back(given(kernel_.col_reference(j)));
  }
  return now;
}

template <class T>
void SinkhornIteration<T>::iterate(std::span<double> col, std::span<double> row,
                                   const IterationCallback& callback, const IterationWatch& watch,
                                   const IterationState* from) {
  PooledVector<double> next(col.size());
  std::optional<double> relaxation = 1.0;
  bool have_row = false;
  if (from != nullptr) {
    relaxation = from->relaxation;
    have_row = from->have_row;
    set_reference(*from);
    if (!from->in_products()) {
      std::copy(from->row.begin(), from->row.end(), row.begin());
      std::copy(from->col.begin(), from->col.end(), col.begin());
    }
  }
  // A state without factors belongs to an iteration that removes maxima.
  bool by_maxima = from != nullptr && !from->in_products();
  for (;;) {
    if (!by_maxima && kernel_.refers() &&
        products(col, row, have_row, relaxation, callback, watch, from) == Left::ended) {
      return;
    }
    by_maxima = false;
    from = nullptr;
    if (watch) {
      IterationState now = state(*relaxation, have_row);
      now.row = PooledVector<double>(row.begin(), row.end());
      now.col = PooledVector<double>(col.begin(), col.end());
      watch(std::move(now));
    }
    MarginalErrors errors;
    if (marginals_.penalties) {
      errors = soft_maxima(col, row, next);
    } else {
      removing_maxima(col, row, next);
      errors = errors_of(col, row, next);
    }
    have_row = true;
    relaxation = callback(errors);
    if (!relaxation) return;
    std::copy(next.begin(), next.end(), col.begin());
  }
}

#define ATTN_FOR_TYPE(T)                                                                       \
  template IterationState SinkhornIteration<T>::state(double, bool) const;                     \
  template void SinkhornIteration<T>::iterate(std::span<double>, std::span<double>,            \
                                              const IterationCallback&, const IterationWatch&, \
                                              const IterationState*);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
