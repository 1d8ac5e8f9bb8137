#include "sinkhorn/implicit_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sinkhorn/completed_lines.hpp"
#include "sinkhorn/plan_products.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// The system of one plan; vectors have Lq + Lk elements.
template <class T>
class PlanSystem final : public ImplicitSystem {
 public:
  PlanSystem(const Scores<T>& scores, Potentials& potentials, const Marginals& marginals,
             int threads)
      : scores_(scores),
        potentials_(potentials),
        threads_(threads),
        rows_(static_cast<std::size_t>(scores.rows())),
        has_kernel_(!marginals.penalties) {
    const Vector ones(rows_ + static_cast<std::size_t>(scores.cols()), 1.0);
    sums_ = products(ones, nullptr);
    for (double& sum : sums_) {
      if (sum < least_line_mass<T>()) sum = 0;
    }
    diagonal_ = sums_;
    for (std::size_t n = 0; marginals.penalties && n < diagonal_.size(); ++n) {
      diagonal_[n] *= 1 + 1 / (n < rows_ ? marginals.penalties->row : marginals.penalties->col);
    }
  }

  // L takes the potentials with Σ f = Σ g: x and y lose their part along (1, −1).
  Vector right_side(const PlanUpstream<T>& upstream) const {
    Vector b(diagonal_.size());
    for (std::size_t i = 0; i < upstream.row.size(); ++i) b[i] = upstream.row[i];
    for (std::size_t j = 0; j < upstream.col.size(); ++j) b[rows_ + j] = upstream.col[j];
    for (std::size_t n = 0; n < b.size(); ++n) {
      if (diagonal_[n] == 0) b[n] = 0;
    }
    project(b);
    if (upstream.plan == nullptr) return b;
    const Vector zeros(diagonal_.size(), 0.0);
    const Vector of_plan = products(zeros, upstream.plan);
    for (std::size_t n = 0; n < b.size(); ++n) b[n] -= of_plan[n];
    balance(b);
    return b;
  }

  Vector times(const Vector& z) const override {
    Vector product = products(z, nullptr);
    for (std::size_t n = 0; n < z.size(); ++n) product[n] += diagonal_[n] * z[n];
    return product;
  }

  void balance(Vector& e) const override {
    remove_kernel(e, [this](std::size_t n) { return diagonal_[n]; });
  }

  // Removes the part along (1, −1).
  void project(Vector& z) const {
    remove_kernel(z, [this](std::size_t n) { return diagonal_[n] > 0 ? 1.0 : 0.0; });
  }

  // Splits a vector into rows and columns.
  void split(const Vector& z, Vector& row, Vector& col) const {
    const auto middle = z.begin() + static_cast<std::ptrdiff_t>(rows_);
    row.assign(z.begin(), middle);
    col.assign(middle, z.end());
  }

  const Vector& sums() const { return sums_; }

 private:
  // Makes z orthogonal to (1, −1); lines change by their shares.
  template <class ShareOf>
  void remove_kernel(Vector& z, const ShareOf& share_of) const {
    if (!has_kernel_) return;
    double along = 0;
    double shares = 0;
    for (std::size_t n = 0; n < z.size(); ++n) {
      if (diagonal_[n] == 0) continue;
      along += n < rows_ ? z[n] : -z[n];
      shares += share_of(n);
    }
    if (shares == 0) return;
    for (std::size_t n = 0; n < z.size(); ++n) {
      z[n] -= share_of(n) * ((n < rows_ ? along : -along) / shares);
    }
  }

  Vector products(const Vector& z, const MatrixSource<T>* g) const {
    PlanProducts<T> found(std::span<const double>(z).first(rows_),
                          std::span<const double>(z).subspan(rows_), g);
    show_weights<T>(scores_, potentials_, 0, {&found}, threads_);
    Vector joined = found.rows();
    joined.insert(joined.end(), found.cols().begin(), found.cols().end());
    return joined;
  }

  const Scores<T>& scores_;
  Potentials& potentials_;
  int threads_;
  std::size_t rows_;
  bool has_kernel_;
  Vector sums_;  // of rows and columns
};

// One side of the derivatives by marginals.
struct MarginalSide {
  std::span<const double> z;          // u or v
  std::span<const double> sums;       // r or c
  std::span<const double> potential;  // f or g
  std::span<const double> marginal;   // a or b
  std::span<const double> upstream;   // x or y; empty: 0
  std::optional<double> penalty;
  bool empty = is_empty(marginal);

  bool has_mass(std::size_t n) const { return marginal[n] > 0 && sums[n] > 0; }

  bool needs_means() const {
    for (std::size_t n = 0; n < marginal.size(); ++n) {
      if (!has_mass(n)) return true;
    }
    return false;
  }

  // exp(f/ρ), the growth of a line's sum with its marginal.
  double growth(std::size_t n) const {
    if (!penalty) return 1;
    return marginal[n] > 0 ? std::exp(potential[n] / *penalty) : infinity;
  }

  // The derivative at a line without mass in the format, with the mean D.
  double from_above(std::size_t n, double mean) const {
    if (std::isnan(mean)) return penalty ? 0 : mean;
    if (empty) return std::numeric_limits<double>::quiet_NaN();
    const double x = upstream.empty() ? 0 : upstream[n];
    // This infinity outweighs the other term, even an infinite one.
    if (x != 0 && marginal[n] == 0) return -x * infinity;
    const double rate = penalty ? soft_exponent(*penalty) : 1;
    return rate * ((mean == 0 ? 0 : mean * growth(n)) - (x == 0 ? 0 : x / marginal[n]));
  }

  PooledVector<double> gradient(const PooledVector<double>& means) const {
    PooledVector<double> by;
    for (std::size_t n = 0; n < marginal.size(); ++n) {
      by.push_back(has_mass(n) ? -z[n] * growth(n) : from_above(n, means[n]));
    }
    return by;
  }
};

}  // namespace

template <class T>
ImplicitGradient implicit_gradient(const Scores<T>& scores, Potentials& potentials,
                                   const Marginals& marginals, const PlanUpstream<T>& upstream,
                                   const ImplicitOptions& options, int threads) {
  const PlanSystem<T> system(scores, potentials, marginals, threads);
  PooledVector<double> z;
  ImplicitGradient found{
      solve_implicit(system, system.right_side(upstream), options, z), {}, {}, {}, {}};
  system.project(z);
  system.split(z, found.row, found.col);
  system.split(system.sums(), found.row_sums, found.col_sums);
  return found;
}

template <class T>
Potentials implicit_marginal_gradient(const Scores<T>& scores, const ImplicitGradient& found,
                                      const Potentials& potentials, const Marginals& marginals,
                                      const PlanUpstream<T>& upstream, int threads) {
  const SoftSides soft(marginals.penalties);
  const MarginalSide row{found.row,     found.row_sums, potentials.row,
                         marginals.row, upstream.row,   soft.row};
  const MarginalSide col{found.col,     found.col_sums, potentials.col,
                         marginals.col, upstream.col,   soft.col};
  PooledVector<double> of_rows, of_cols;
  if (row.needs_means()) {
    of_rows = row_means<T>(scores, reached_potentials(potentials.col, marginals.row, marginals.col),
                           upstream.plan, found.col, threads);
  }
  if (col.needs_means()) {
    of_cols = col_means<T>(scores, reached_potentials(potentials.row, marginals.col, marginals.row),
                           upstream.plan, found.row, threads);
  }
  return {row.gradient(of_rows), col.gradient(of_cols), {}};
}

std::int64_t implicit_gradient_bytes(Index rows, Index cols, std::size_t element_size,
                                     int threads) {
  const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  // The sums, the diagonal, b, z, two residuals, the direction, two products, and ones or a copy.
  // Or the means of lines without mass.
  return std::max(
      pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads) +
          PlanProducts<double>::bytes(partition, threads) + 10 * (rows + cols) * number,
      completed_lines_bytes(rows, cols, element_size, threads) + 2 * (rows + cols) * number);
}

#define ATTN_FOR_TYPE(T)                                                                       \
  template ImplicitGradient implicit_gradient(const Scores<T>&, Potentials&, const Marginals&, \
                                              const PlanUpstream<T>&, const ImplicitOptions&,  \
                                              int);                                            \
  template Potentials implicit_marginal_gradient(const Scores<T>&, const ImplicitGradient&,    \
                                                 const Potentials&, const Marginals&,          \
                                                 const PlanUpstream<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
