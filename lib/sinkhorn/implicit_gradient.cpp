#include "sinkhorn/implicit_gradient.hpp"

#include <cmath>
#include <limits>

#include "sinkhorn/plan_products.hpp"
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
    diagonal_ = products(ones, nullptr);
    for (std::size_t n = 0; marginals.penalties && n < diagonal_.size(); ++n) {
      diagonal_[n] *= 1 + 1 / (n < rows_ ? marginals.penalties->row : marginals.penalties->col);
    }
  }

  // L is that of potentials with Σ f = Σ g: x and y lose what lies along (1, −1).
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

  // Removes what lies along (1, −1).
  void project(Vector& z) const {
    remove_kernel(z, [this](std::size_t n) { return diagonal_[n] > 0 ? 1.0 : 0.0; });
  }

  std::size_t rows() const { return rows_; }

 private:
  // Makes z orthogonal to (1, −1); lines change by shares of that.
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
};

}  // namespace

template <class T>
ImplicitGradient implicit_gradient(const Scores<T>& scores, Potentials& potentials,
                                   const Marginals& marginals, const PlanUpstream<T>& upstream,
                                   const ImplicitOptions& options, int threads) {
  const PlanSystem<T> system(scores, potentials, marginals, threads);
  PooledVector<double> z;
  ImplicitGradient found{solve_implicit(system, system.right_side(upstream), options, z), {}, {}};
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
