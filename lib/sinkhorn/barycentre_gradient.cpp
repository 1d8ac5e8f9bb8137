#include "sinkhorn/barycentre_gradient.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sinkhorn/plan_products.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

double weight_of(const Histograms& histograms, Index k) {
  return histograms.weights[static_cast<std::size_t>(k)];
}

// Σ x y; what x has no part of may be infinite.
double product_of(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t n = 0; n < x.size(); ++n) sum += x[n] == 0 ? 0 : x[n] * y[n];
  return sum;
}

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

template <class T>
void show_plan(const Scores<T>& scores, std::span<double> row, std::span<double> col,
               Observer<T>& observer, int threads) {
  Pass<T> pass;
  pass.scores = &scores;
  pass.observers = {&observer};
  pass.components = {Component{1, row, col}};
  run(pass, threads);
}

// The equations of the columns, from which U and R are eliminated. With q_i = Σ_k w_k/r_ki
//
//   R_i = (h_i + Σ_k w_k/r_ki Σ_j π_kij V_kj)/q_i,   U_ki = (R_i − Σ_j π_kij V_kj)/r_ki,
//
// and the system is w_k (c_k V_k + π_kᵀ U_k) = 0. The diagonal that it is preconditioned by is w_k
// c_k; relative to it, eigenvalues are in [0, 1]. The kernel, V_kj = t_k with Σ w_k t_k = 0, has
// no influence on what keeps the sums of histograms equal.
template <class T>
class BarycentreSystem final : public ImplicitSystem {
 public:
  BarycentreSystem(const Scores<T>& scores, Barycentre& found, const Histograms& histograms,
                   int threads)
      : scores_(scores), found_(found), histograms_(histograms), threads_(threads) {
    row_sums_.resize(found.row.size());
    shares_.resize(found.row.size());
    diagonal_.resize(found.col.size());
    const Vector row_ones(static_cast<std::size_t>(rows()), 1.0);
    const Vector col_ones(static_cast<std::size_t>(cols()), 1.0);
    for_weights([&](Index k, double weight) {
      PlanProducts<T> sums(row_ones, col_ones);
      show(k, sums);
      std::copy(sums.rows().begin(), sums.rows().end(), part_of(row_sums_, k, rows()).begin());
      const auto diagonal = part_of(diagonal_, k, cols());
      for (std::size_t j = 0; j < diagonal.size(); ++j) diagonal[j] = weight * sums.cols()[j];
    });
    set_means();
  }

  Vector right_side(std::span<const double> h) const {
    Vector row, total;
    complete_rows(nullptr, h, row, total);
    Vector b(diagonal_.size());
    add_columns(row, b);
    for (std::size_t n = 0; n < b.size(); ++n) b[n] = diagonal_[n] == 0 ? 0 : -b[n];
    balance(b);
    return b;
  }

  Vector times(const Vector& z) const override {
    Vector row, total;
    complete_rows(&z, {}, row, total);
    Vector product(z.size());
    for (std::size_t n = 0; n < z.size(); ++n) product[n] = diagonal_[n] * z[n];
    add_columns(row, product);
    return product;
  }

  // The sum of each histogram's part becomes μ w_k.
  void balance(Vector& e) const override {
    Vector apart(static_cast<std::size_t>(histograms_.count));
    double along = 0;
    double squares = 0;
    for_weights([&](Index k, double weight) {
      const double mass = sum_of(part_of(diagonal_, k, cols()));
      if (mass == 0) return;
      const double sum = sum_of(part_of(e, k, cols()));
      apart[static_cast<std::size_t>(k)] = sum / mass;
      along += weight * sum / mass;
      squares += weight * weight / mass;
    });
    if (squares == 0) return;
    for_weights([&](Index k, double weight) {
      const auto diagonal = part_of(diagonal_, k, cols());
      const double mass = sum_of(diagonal);
      const double off =
          mass == 0 ? 0 : apart[static_cast<std::size_t>(k)] - along / squares * weight / mass;
      const auto part = part_of(e, k, cols());
      for (std::size_t j = 0; j < part.size(); ++j) part[j] -= diagonal[j] * off;
    });
  }

  // U (K, Lq) and R (Lq) of V and h; absent: 0.
  void complete_rows(const Vector* v, std::span<const double> h, Vector& row, Vector& total) const {
    row.assign(found_.row.size(), 0.0);
    total.assign(static_cast<std::size_t>(rows()), 0.0);
    for (std::size_t i = 0; i < h.size(); ++i) total[i] = h[i] * mean_sums_[i];
    for_weights([&](Index k, double) {
      if (v == nullptr) return;
      PlanProducts<T> products({}, part_of(*v, k, cols()));
      show(k, products);
      std::copy(products.rows().begin(), products.rows().end(), part_of(row, k, rows()).begin());
      const auto share = part_of(shares_, k, rows());
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += share[i] * products.rows()[i];
    });
    for_weights([&](Index k, double) {
      const auto own = part_of(row, k, rows());
      const auto sum = part_of(row_sums_, k, rows());
      for (std::size_t i = 0; i < total.size(); ++i) {
        own[i] = mean_sums_[i] == 0 ? 0 : (total[i] - own[i]) / sum[i];
      }
    });
  }

 private:
  Index rows() const { return scores_.rows(); }
  Index cols() const { return scores_.cols(); }

  template <class Use>
  void for_weights(const Use& use) const {
    for (Index k = 0; k < histograms_.count; ++k) {
      if (const double weight = weight_of(histograms_, k); weight > 0) use(k, weight);
    }
  }

  void show(Index k, Observer<T>& observer) const {
    show_plan(scores_, part_of(found_.row, k, rows()), part_of(found_.col, k, cols()), observer,
              threads_);
  }

  // 1/q, the harmonic mean of a row's sums, and the shares w_k/(q r_ki) of histograms in it. A row
  // whose sums have no inverse is closed: all are 0.
  void set_means() {
    mean_sums_.resize(static_cast<std::size_t>(rows()));
    for (std::size_t i = 0; i < mean_sums_.size(); ++i) {
      const auto at = [&](Index k) { return static_cast<std::size_t>(k * rows()) + i; };
      bool open = true;
      double q = 0;
      for_weights([&](Index k, double weight) {
        open = open && row_sums_[at(k)] >= std::numeric_limits<double>::min();
        if (open) q += weight / row_sums_[at(k)];
      });
      if (!open) continue;
      mean_sums_[i] = 1 / q;
      for_weights([&](Index k, double weight) { shares_[at(k)] = weight / row_sums_[at(k)] / q; });
    }
  }

  // Adds w_k π_kᵀ U_k.
  void add_columns(const Vector& row, Vector& to) const {
    for_weights([&](Index k, double weight) {
      PlanProducts<T> products(part_of(row, k, rows()), {});
      show(k, products);
      const auto columns = part_of(to, k, cols());
      for (std::size_t j = 0; j < columns.size(); ++j) columns[j] += weight * products.cols()[j];
    });
  }

  const Scores<T>& scores_;
  Barycentre& found_;
  const Histograms& histograms_;
  int threads_;
  Vector row_sums_;   // r (K, Lq)
  Vector shares_;     // (K, Lq)
  Vector mean_sums_;  // (Lq)
};

}  // namespace

PooledVector<double> barycentre_gradient(const Barycentre& found, const Histograms& histograms) {
  PooledVector<double> gradient(found.col.size());
  const std::size_t cols = found.col.size() / static_cast<std::size_t>(histograms.count);
  for (std::size_t n = 0; n < gradient.size(); ++n) {
    const double weight = histograms.weights[n / cols];
    if (weight == 0) continue;
    gradient[n] = histograms.masses[n] == 0 ? minus_infinity : -weight * found.col[n];
  }
  return gradient;
}

template <class T>
HistogramPotentials histogram_potentials(const Scores<T>& scores, const Barycentre& found,
                                         const Histograms& histograms,
                                         const BarycentreOptions& options, int threads) {
  HistogramPotentials potentials{SolveStatus::converged, found.row, found.col};
  SinkhornOptions transport;
  static_cast<Stopping&>(transport) = static_cast<const Stopping&>(options);
  transport.kept_bytes = options.kept_bytes;
  transport.keeps_errors = false;
  for (Index k = 0; k < histograms.count; ++k) {
    if (weight_of(histograms, k) > 0) continue;
    const auto masses = part_of(histograms.masses, k, scores.cols());
    const Marginals marginals{found.masses, PooledVector<double>(masses.begin(), masses.end())};
    const SinkhornSolution solved = solve_sinkhorn(scores, marginals, transport, {}, threads);
    if (solved.summary.status == SolveStatus::not_converged) {
      potentials.status = SolveStatus::not_converged;
    }
    const auto copy = [k](const PooledVector<double>& from, PooledVector<double>& to) {
      std::copy(from.begin(), from.end(), part_of(to, k, static_cast<Index>(from.size())).begin());
    };
    copy(solved.potentials.row, potentials.row);
    copy(solved.potentials.col, potentials.col);
  }
  return potentials;
}

PooledVector<double> weight_gradient(const Barycentre& found, const Histograms& histograms,
                                     const HistogramPotentials& potentials) {
  const auto rows = static_cast<Index>(found.masses.size());
  const Index cols = static_cast<Index>(histograms.masses.size()) / histograms.count;
  // Σ π_k is the same for all k and leaves with the mean.
  PooledVector<double> gradient;
  double mean = 0;
  for (Index k = 0; k < histograms.count; ++k) {
    gradient.push_back(
        -product_of(found.masses, part_of(potentials.row, k, rows)) -
        product_of(part_of(histograms.masses, k, cols), part_of(potentials.col, k, cols)));
    mean += weight_of(histograms, k) * gradient.back();
  }
  for (double& value : gradient) value -= mean;
  return gradient;
}

template <class T>
ImplicitBarycentre implicit_barycentre(const Scores<T>& scores, Barycentre& found,
                                       const Histograms& histograms, std::span<const double> h,
                                       const ImplicitOptions& options, int threads) {
  const BarycentreSystem<T> system(scores, found, histograms, threads);
  PooledVector<double> v;
  ImplicitBarycentre solved{solve_implicit(system, system.right_side(h), options, v), {}, {}, {}};
  system.complete_rows(&v, h, solved.row, solved.total);
  solved.col = std::move(v);
  return solved;
}

template <class T>
PooledVector<double> implicit_histogram_gradient(const Scores<T>& scores, Barycentre& found,
                                                 const Histograms& histograms,
                                                 const ImplicitBarycentre& solved, int threads) {
  const Index rows = scores.rows();
  const Index cols = scores.cols();
  PooledVector<double> gradient(solved.col.size());
  for (Index k = 0; k < histograms.count; ++k) {
    const double weight = weight_of(histograms, k);
    if (weight == 0) continue;
    const auto masses = part_of(histograms.masses, k, cols);
    const auto col = part_of(solved.col, k, cols);
    const auto to = part_of(gradient, k, cols);
    for (std::size_t j = 0; j < masses.size(); ++j) to[j] = -weight * col[j];
    if (std::find(masses.begin(), masses.end(), 0.0) == masses.end()) continue;
    // A closed column as that of a mass of 1.
    const auto row = part_of(found.row, k, rows);
    PooledVector<double> unit(static_cast<std::size_t>(cols));
    Pass<T> pass;
    pass.scores = &scores;
    pass.order = Order::column_panels;
    pass.completes = Completes::columns;
    pass.components = {Component{1, row, unit}};
    run(pass, threads);
    PlanProducts<T> products(part_of(solved.row, k, rows), {});
    show_plan<T>(scores, row, unit, products, threads);
    for (std::size_t j = 0; j < masses.size(); ++j) {
      if (masses[j] == 0) to[j] = weight * products.cols()[j];
    }
  }
  return gradient;
}

PooledVector<double> implicit_weight_gradient(const ImplicitBarycentre& solved,
                                              const HistogramPotentials& potentials) {
  const auto rows = static_cast<Index>(solved.total.size());
  PooledVector<double> gradient;
  for (Index k = 0; k * rows < static_cast<Index>(potentials.row.size()); ++k) {
    gradient.push_back(product_of(solved.total, part_of(potentials.row, k, rows)));
  }
  return gradient;
}

std::int64_t barycentre_gradient_bytes(Index rows, Index cols, Index histograms,
                                       std::size_t element_size, int threads) {
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
  const std::int64_t products =
      pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads) +
      PlanProducts<double>::bytes(partition, threads);
  const std::int64_t columns =
      pass_bytes(Order::column_panels, rows, cols, 1, element_size, threads);
  // Sums and shares of rows and a copy of U; the diagonal, b, z and what the solver holds. Ones, or
  // marginals and potentials of one transport.
  const std::int64_t held = histograms * (3 * rows + (3 + implicit_vectors) * cols);
  return std::max({products, columns, sinkhorn_solver_bytes(rows, cols, element_size, threads)}) +
         (held + 5 * (rows + cols)) * number;
}

#define ATTN_FOR_TYPE(T)                                                                      \
  template HistogramPotentials histogram_potentials(                                          \
      const Scores<T>&, const Barycentre&, const Histograms&, const BarycentreOptions&, int); \
  template ImplicitBarycentre implicit_barycentre(const Scores<T>&, Barycentre&,              \
                                                  const Histograms&, std::span<const double>, \
                                                  const ImplicitOptions&, int);               \
  template PooledVector<double> implicit_histogram_gradient(                                  \
      const Scores<T>&, Barycentre&, const Histograms&, const ImplicitBarycentre&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
