#include "sinkhorn/implicit_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sinkhorn/plan_products.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// How often conjugate gradients begin again from the residual, which they lose sight of by
// rounding.
constexpr int most_refinements = 4;

// The system of one plan; vectors have Lq + Lk elements.
template <class T>
class ImplicitSystem {
 public:
  using Vector = PooledVector<double>;

  ImplicitSystem(const Scores<T>& scores, Potentials& potentials, const Marginals& marginals,
                 int threads)
      : scores_(scores),
        potentials_(potentials),
        threads_(threads),
        rows_(static_cast<std::size_t>(scores.rows())),
        has_kernel_(!marginals.penalties) {
    const Vector ones(rows_ + static_cast<std::size_t>(scores.cols()), 1.0);
    diagonal_ = products(ones, nullptr);
    for (std::size_t n = 0; marginals.penalties && n < diagonal_.size(); ++n) {
      diagonal_[n] *= 1 + 1 / (n < rows_ ? marginals.penalties->row : marginals.penalties->col);
    }
  }

  Vector right_side(const PlanUpstream<T>& upstream) const {
    Vector b(diagonal_.size());
    if (upstream.plan != nullptr) {
      const Vector zeros(diagonal_.size(), 0.0);
      b = products(zeros, upstream.plan);
      for (double& value : b) value = -value;
    }
    for (std::size_t i = 0; i < upstream.row.size(); ++i) b[i] += upstream.row[i];
    for (std::size_t j = 0; j < upstream.col.size(); ++j) b[rows_ + j] += upstream.col[j];
    for (std::size_t n = 0; n < b.size(); ++n) {
      if (diagonal_[n] == 0) b[n] = 0;
    }
    project(b);
    return b;
  }

  Vector times(const Vector& z) const {
    Vector product = products(z, nullptr);
    for (std::size_t n = 0; n < z.size(); ++n) product[n] += diagonal_[n] * z[n];
    return product;
  }

  // Removes what lies along (1, −1).
  void project(Vector& z) const {
    if (!has_kernel_) return;
    double along = 0;
    double lines = 0;
    for (std::size_t n = 0; n < z.size(); ++n) {
      if (diagonal_[n] == 0) continue;
      along += n < rows_ ? z[n] : -z[n];
      ++lines;
    }
    if (lines == 0) return;
    for (std::size_t n = 0; n < z.size(); ++n) {
      if (diagonal_[n] > 0) z[n] -= (n < rows_ ? along : -along) / lines;
    }
  }

  // Σ z²/diagonal; a line may have less mass than has a square.
  double square(const Vector& z) const {
    double sum = 0;
    for (std::size_t n = 0; n < z.size(); ++n) {
      if (diagonal_[n] == 0) continue;
      const double scaled = z[n] / std::sqrt(diagonal_[n]);
      sum += scaled * scaled;
    }
    return sum;
  }

  double preconditioned(const Vector& z, std::size_t n) const {
    return diagonal_[n] == 0 ? 0 : z[n] / diagonal_[n];
  }

  std::size_t rows() const { return rows_; }

 private:
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
  Vector diagonal_;
};

// Conjugate gradients: adds to z until what is left, whose square is `left` at first, has fallen to
// `aim`; counts `iterations` down.
template <class T>
void add_solution(const ImplicitSystem<T>& system, PooledVector<double> residual, double aim,
                  PooledVector<double>& z, Index& iterations) {
  PooledVector<double> direction(z.size(), 0.0);
  double before = 0;
  for (;;) {
    const double left = system.square(residual);
    if (!(left > aim) || iterations == 0) return;
    const double beta = before == 0 ? 0 : left / before;
    for (std::size_t n = 0; n < z.size(); ++n) {
      direction[n] = system.preconditioned(residual, n) + beta * direction[n];
    }
    const PooledVector<double> moved = system.times(direction);
    --iterations;
    double curvature = 0;
    for (std::size_t n = 0; n < z.size(); ++n) curvature += direction[n] * moved[n];
    // Rounding leaves nothing to gain.
    if (!(curvature > 0)) return;
    for (std::size_t n = 0; n < z.size(); ++n) {
      z[n] += left / curvature * direction[n];
      residual[n] -= left / curvature * moved[n];
    }
    system.project(residual);
    before = left;
  }
}

}  // namespace

template <class T>
ImplicitGradient implicit_gradient(const Scores<T>& scores, Potentials& potentials,
                                   const Marginals& marginals, const PlanUpstream<T>& upstream,
                                   const ImplicitOptions& options, int threads) {
  const ImplicitSystem<T> system(scores, potentials, marginals, threads);
  const PooledVector<double> b = system.right_side(upstream);
  PooledVector<double> z(b.size(), 0.0);
  const double whole = system.square(b);
  const double aim = options.tolerance * options.tolerance * whole;
  Index left = options.iterations;
  ImplicitGradient found;
  PooledVector<double> residual = b;
  for (int n = 0; n < most_refinements && system.square(residual) > aim && left > 0; ++n) {
    // Rounding moves what is left away from what is added up here.
    add_solution(system, residual, aim / 4, z, left);
    const PooledVector<double> reached = system.times(z);
    for (std::size_t at = 0; at < b.size(); ++at) residual[at] = b[at] - reached[at];
    system.project(residual);
  }
  found.iterations = options.iterations - left;
  if (whole > 0) found.residual = std::sqrt(system.square(residual) / whole);
  if (!(found.residual <= options.tolerance)) found.status = SolveStatus::not_converged;
  system.project(z);
  const auto middle = z.begin() + static_cast<std::ptrdiff_t>(system.rows());
  found.row.assign(z.begin(), middle);
  found.col.assign(middle, z.end());
  return found;
}

Potentials implicit_marginal_gradient(const ImplicitGradient& found, const Potentials& potentials,
                                      const Marginals& marginals) {
  const auto side = [](const PooledVector<double>& z, const PooledVector<double>& potential,
                       const PooledVector<double>& marginal, double penalty) {
    PooledVector<double> gradient;
    for (std::size_t n = 0; n < z.size(); ++n) {
      const bool open = marginal[n] > 0 && potential[n] != minus_infinity;
      gradient.push_back(open ? -z[n] * std::exp(potential[n] / penalty)
                              : std::numeric_limits<double>::quiet_NaN());
    }
    return gradient;
  };
  // f/∞ is 0.
  const MarginalPenalties penalties =
      marginals.penalties.value_or(MarginalPenalties{infinity, infinity});
  return {side(found.row, potentials.row, marginals.row, penalties.row),
          side(found.col, potentials.col, marginals.col, penalties.col),
          {}};
}

std::int64_t implicit_gradient_bytes(Index rows, Index cols, std::size_t element_size,
                                     int threads) {
  const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
  // The diagonal, b, z, what is left twice, the direction, two products, and ones or a copy.
  return pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads) +
         PlanProducts<double>::bytes(partition, threads) +
         9 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
}

#define ATTN_FOR_TYPE(T)                                                                       \
  template ImplicitGradient implicit_gradient(const Scores<T>&, Potentials&, const Marginals&, \
                                              const PlanUpstream<T>&, const ImplicitOptions&,  \
                                              int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
