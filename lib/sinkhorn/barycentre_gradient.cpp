#include "sinkhorn/barycentre_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "sinkhorn/completed_lines.hpp"
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

// The equations of the columns, from which U and R are eliminated. With q_i = Σ_k w_k/r_ki and
// M_ki = Σ_j π_kij (G_ij + V_kj) − x_ki/w_k
//
//   R_i = (h_i + Σ_k w_k/r_ki M_ki)/q_i,   U_ki = (R_i − M_ki)/r_ki,
//
// and the system is w_k (c_k V_k + π_kᵀ U_k) = y_k − w_k π_kᵀ G. The diagonal that it is
// preconditioned by is w_k c_k; relative to it, eigenvalues are in [0, 1]. The kernel, V_kj = t_k
// with Σ w_k t_k = 0, has no influence on what keeps the sums of histograms equal.
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
      for (std::size_t j = 0; j < diagonal.size(); ++j) {
        diagonal[j] = sums.cols()[j] < least_line_mass<T>() ? 0 : weight * sums.cols()[j];
      }
    });
    set_means();
  }

  // L is that of potentials with the same Σ f_k − Σ g_k for all k: x and y lose what lies along the
  // kernel.
  void project(BarycentreUpstream<T>& upstream, Vector& row, Vector& col) const {
    if (upstream.row.empty() && upstream.col.empty()) return;
    require_weights(upstream);
    row.assign(found_.row.size(), 0.0);
    col.assign(found_.col.size(), 0.0);
    std::copy(upstream.row.begin(), upstream.row.end(), row.begin());
    std::copy(upstream.col.begin(), upstream.col.end(), col.begin());
    for (std::size_t n = 0; n < row.size(); ++n) {
      if (mean_sums_[n % mean_sums_.size()] == 0) row[n] = 0;
    }
    for (std::size_t n = 0; n < col.size(); ++n) {
      if (diagonal_[n] == 0) col[n] = 0;
    }
    const Vector lines = open_lines();
    double along = 0;
    double shares = 0;
    for_weights([&](Index k, double weight) {
      along += apart(k, row, col) / lines[at(k)];
      shares += weight / lines[at(k)];
    });
    for_weights([&](Index k, double weight) {
      const double off = (weight * (along / shares) - apart(k, row, col)) / lines[at(k)];
      const auto own_row = part_of(row, k, rows());
      const auto own_col = part_of(col, k, cols());
      const auto diagonal = part_of(diagonal_, k, cols());
      for (std::size_t i = 0; i < own_row.size(); ++i) own_row[i] += mean_sums_[i] > 0 ? off : 0;
      for (std::size_t j = 0; j < own_col.size(); ++j) own_col[j] -= diagonal[j] > 0 ? off : 0;
    });
    upstream.row = row;
    upstream.col = col;
  }

  Vector right_side(const BarycentreUpstream<T>& upstream) const {
    Vector row, total;
    complete_rows(nullptr, upstream, row, total);
    Vector b(diagonal_.size());
    add_columns(row, upstream.plan, b);
    for (std::size_t n = 0; n < b.size(); ++n) {
      b[n] = diagonal_[n] == 0 ? 0 : (upstream.col.empty() ? 0 : upstream.col[n]) - b[n];
    }
    balance(b);
    return b;
  }

  Vector times(const Vector& z) const override {
    Vector row, total;
    complete_rows(&z, {}, row, total);
    Vector product(z.size());
    for (std::size_t n = 0; n < z.size(); ++n) product[n] = diagonal_[n] * z[n];
    add_columns(row, nullptr, product);
    return product;
  }

  // The sum of each histogram's part becomes μ w_k.
  void balance(Vector& e) const override {
    Vector means(static_cast<std::size_t>(histograms_.count));
    double along = 0;
    double squares = 0;
    for_weights([&](Index k, double weight) {
      const double mass = sum_of(part_of(diagonal_, k, cols()));
      if (mass == 0) return;
      const double sum = sum_of(part_of(e, k, cols()));
      means[at(k)] = sum / mass;
      along += weight * sum / mass;
      squares += weight * weight / mass;
    });
    if (squares == 0) return;
    for_weights([&](Index k, double weight) {
      const auto diagonal = part_of(diagonal_, k, cols());
      const double mass = sum_of(diagonal);
      const double off = mass == 0 ? 0 : means[at(k)] - along / squares * weight / mass;
      const auto part = part_of(e, k, cols());
      for (std::size_t j = 0; j < part.size(); ++j) part[j] -= diagonal[j] * off;
    });
  }

  // U (K, Lq) and R (Lq) of V and what L depends on; absent: 0.
  void complete_rows(const Vector* v, const BarycentreUpstream<T>& upstream, Vector& row,
                     Vector& total) const {
    row.assign(found_.row.size(), 0.0);
    total.assign(static_cast<std::size_t>(rows()), 0.0);
    const std::span<const double> h = upstream.masses;
    for (std::size_t i = 0; i < h.size(); ++i) total[i] = h[i] * mean_sums_[i];
    for_weights([&](Index k, double weight) {
      const auto own = part_of(row, k, rows());
      if (v != nullptr || upstream.plan != nullptr) {
        PlanProducts<T> products(
            {}, v == nullptr ? std::span<const double>() : part_of(*v, k, cols()), upstream.plan);
        show(k, products);
        std::copy(products.rows().begin(), products.rows().end(), own.begin());
      }
      if (!upstream.row.empty()) {
        const auto x = part_of(upstream.row, k, rows());
        for (std::size_t i = 0; i < x.size(); ++i) own[i] -= x[i] / weight;
      }
      const auto share = part_of(shares_, k, rows());
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += share[i] * own[i];
    });
    for_weights([&](Index k, double) {
      const auto own = part_of(row, k, rows());
      const auto sum = part_of(row_sums_, k, rows());
      for (std::size_t i = 0; i < total.size(); ++i) {
        own[i] = mean_sums_[i] == 0 ? 0 : (total[i] - own[i]) / sum[i];
      }
    });
  }

  // The same for rows whose mass is 0 in T, which have U_ki = R_i/p_i − D_ki with the means D_ki of
  // G_ij + V_kj, and R_i/p_i = h_i + Σ_k w_k D_ki. A column without mass may be near such rows
  // alone.
  void complete_faint_rows(const Vector& v, const BarycentreUpstream<T>& upstream, Vector& row,
                           Vector& total) const {
    if (std::find(mean_sums_.begin(), mean_sums_.end(), 0.0) == mean_sums_.end()) return;
    Vector common(static_cast<std::size_t>(rows()));
    std::copy(upstream.masses.begin(), upstream.masses.end(), common.begin());
    for_weights([&](Index k, double weight) {
      const Vector means = row_means<T>(scores_, part_of(found_.col, k, cols()), upstream.plan,
                                        part_of(v, k, cols()), threads_);
      const auto own = part_of(row, k, rows());
      for (std::size_t i = 0; i < common.size(); ++i) {
        // Without mass in the histograms there is nothing to add.
        if (mean_sums_[i] > 0 || std::isnan(means[i])) continue;
        own[i] = -means[i];
        common[i] += weight * means[i];
      }
    });
    for (std::size_t i = 0; i < common.size(); ++i) {
      if (mean_sums_[i] == 0) total[i] = found_.masses[i] * common[i];
    }
    for_weights([&](Index k, double) {
      const auto own = part_of(row, k, rows());
      for (std::size_t i = 0; i < common.size(); ++i) own[i] += mean_sums_[i] == 0 ? common[i] : 0;
    });
  }

 private:
  Index rows() const { return scores_.rows(); }
  Index cols() const { return scores_.cols(); }
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }

  // Throws for x or y of a histogram of weight 0.
  void require_weights(const BarycentreUpstream<T>& upstream) const {
    const auto require = [&](std::span<const double> given, Index length, const char* potential) {
      for (std::size_t n = 0; n < given.size(); ++n) {
        const Index k = static_cast<Index>(n) / length;
        if (given[n] == 0 || weight_of(histograms_, k) > 0) continue;
        throw Error(Failure::input, "a number depends on the " + std::string(potential) +
                                        " potentials of histogram " + std::to_string(k) +
                                        ", whose weight is 0");
      }
    };
    require(upstream.row, rows(), "row");
    require(upstream.col, cols(), "column");
  }

  // How many rows and columns of each plan have mass; at least 1.
  Vector open_lines() const {
    Vector lines(at(histograms_.count), 0.0);
    for (Index k = 0; k < histograms_.count; ++k) {
      const auto diagonal = part_of(diagonal_, k, cols());
      const auto open =
          std::count_if(diagonal.begin(), diagonal.end(), [](double mass) { return mass > 0; }) +
          std::count_if(mean_sums_.begin(), mean_sums_.end(), [](double mass) { return mass > 0; });
      lines[at(k)] = std::max(1.0, static_cast<double>(open));
    }
    return lines;
  }

  // Σ_i of rows less Σ_j of columns.
  double apart(Index k, const Vector& row, const Vector& col) const {
    return sum_of(part_of(row, k, rows())) - sum_of(part_of(col, k, cols()));
  }

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

  // 1/q, the harmonic mean of a row's sums, and the shares w_k/(q r_ki) of histograms in it; all
  // are 0 for a row without mass in T.
  void set_means() {
    mean_sums_.resize(static_cast<std::size_t>(rows()));
    for (std::size_t i = 0; i < mean_sums_.size(); ++i) {
      const auto line = [&](Index k) { return at(k * rows()) + i; };
      bool open = true;
      double q = 0;
      for_weights([&](Index k, double weight) {
        open = open && row_sums_[line(k)] >= least_line_mass<T>();
        if (open) q += weight / row_sums_[line(k)];
      });
      if (!open) continue;
      mean_sums_[i] = 1 / q;
      for_weights(
          [&](Index k, double weight) { shares_[line(k)] = weight / row_sums_[line(k)] / q; });
    }
  }

  // Adds w_k Σ_i π_kij (G_ij + U_ki).
  void add_columns(const Vector& row, const MatrixSource<T>* g, Vector& to) const {
    for_weights([&](Index k, double weight) {
      PlanProducts<T> products(part_of(row, k, rows()), {}, g);
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

// What is added to the potentials f_k and taken from g_k so that Σ f_k − Σ g_k is the same for all
// histograms, over lines with mass, and Σ_k w_k f_k stays 0.
PooledVector<double> common_shifts(const Barycentre& found, const Histograms& histograms,
                                   const HistogramPotentials& potentials) {
  const auto rows = static_cast<Index>(found.masses.size());
  const Index cols = static_cast<Index>(histograms.masses.size()) / histograms.count;
  PooledVector<double> apart, lines;
  double mean = 0;
  double shares = 0;
  for (Index k = 0; k < histograms.count; ++k) {
    double difference = 0;
    double count = 0;
    for (const double f : part_of(potentials.row, k, rows)) {
      if (f == minus_infinity) continue;
      difference += f;
      ++count;
    }
    for (const double g : part_of(potentials.col, k, cols)) {
      if (g == minus_infinity) continue;
      difference -= g;
      ++count;
    }
    apart.push_back(difference);
    lines.push_back(std::max(1.0, count));
    mean += weight_of(histograms, k) * difference / lines.back();
    shares += weight_of(histograms, k) / lines.back();
  }
  for (std::size_t k = 0; k < apart.size(); ++k) apart[k] = (mean / shares - apart[k]) / lines[k];
  return apart;
}

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
                                       const Histograms& histograms,
                                       const BarycentreUpstream<T>& upstream,
                                       const ImplicitOptions& options, int threads) {
  const BarycentreSystem<T> system(scores, found, histograms, threads);
  BarycentreUpstream<T> projected = upstream;
  PooledVector<double> row, col, v;
  system.project(projected, row, col);
  ImplicitBarycentre solved{
      solve_implicit(system, system.right_side(projected), options, v), {}, {}, {}};
  system.complete_rows(&v, projected, solved.row, solved.total);
  system.complete_faint_rows(v, projected, solved.row, solved.total);
  solved.col = std::move(v);
  return solved;
}

template <class T>
PooledVector<double> implicit_histogram_gradient(const Scores<T>& scores, const Barycentre& found,
                                                 const Histograms& histograms,
                                                 const BarycentreUpstream<T>& upstream,
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
    const auto faint = [](double mass) { return mass < 2 * least_line_mass<T>(); };
    if (std::none_of(masses.begin(), masses.end(), faint)) continue;
    const PooledVector<double> means = col_means<T>(
        scores, part_of(found.row, k, rows), upstream.plan, part_of(solved.row, k, rows), threads);
    for (std::size_t j = 0; j < masses.size(); ++j) {
      if (!faint(masses[j])) continue;
      const double y = upstream.col.empty() ? 0 : part_of(upstream.col, k, cols)[j];
      to[j] = weight * means[j] - (y == 0 ? 0 : y / masses[j]);
    }
  }
  return gradient;
}

template <class T>
PooledVector<double> implicit_weight_gradient(const Scores<T>& scores, const Barycentre& found,
                                              const Histograms& histograms,
                                              const BarycentreUpstream<T>& upstream,
                                              const ImplicitBarycentre& solved,
                                              const HistogramPotentials& potentials, int threads) {
  const Index rows = scores.rows();
  const Index cols = scores.cols();
  PooledVector<double> shifts;
  if (!upstream.row.empty() || !upstream.col.empty()) {
    shifts = common_shifts(found, histograms, potentials);
  }
  PooledVector<double> gradient;
  double mean = 0;
  for (Index k = 0; k < histograms.count; ++k) {
    const auto f = part_of(potentials.row, k, rows);
    double by = product_of(solved.total, f);
    if (!shifts.empty()) by += shifts[static_cast<std::size_t>(k)] * sum_of(solved.total);
    if (upstream.plan != nullptr) {
      PooledVector<double> row(f.begin(), f.end());
      const auto g = part_of(potentials.col, k, cols);
      PooledVector<double> col(g.begin(), g.end());
      PlanProducts<T> products({}, {}, upstream.plan);
      show_plan<T>(scores, row, col, products, threads);
      by += sum_of(products.rows());
    }
    gradient.push_back(by);
    mean += weight_of(histograms, k) * by;
  }
  for (double& value : gradient) value -= mean;
  return gradient;
}

std::int64_t barycentre_gradient_bytes(Index rows, Index cols, Index histograms,
                                       std::size_t element_size, int threads) {
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
  const std::int64_t products =
      pass_bytes(Order::row_panels, rows, cols, 1, element_size, threads) +
      PlanProducts<double>::bytes(partition, threads);
  const std::int64_t means = completed_lines_bytes(rows, cols, element_size, threads);
  // Sums and shares of rows, a copy of U and x; the diagonal, b, z, y and what the solver holds.
  // Ones, or marginals and potentials of one transport.
  const std::int64_t held = histograms * (4 * rows + (4 + implicit_vectors) * cols + 2);
  return std::max({products, means, sinkhorn_solver_bytes(rows, cols, element_size, threads)}) +
         (held + 5 * (rows + cols)) * number;
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template HistogramPotentials histogram_potentials(                                               \
      const Scores<T>&, const Barycentre&, const Histograms&, const BarycentreOptions&, int);      \
  template ImplicitBarycentre implicit_barycentre(const Scores<T>&, Barycentre&,                   \
                                                  const Histograms&, const BarycentreUpstream<T>&, \
                                                  const ImplicitOptions&, int);                    \
  template PooledVector<double> implicit_histogram_gradient(                                       \
      const Scores<T>&, const Barycentre&, const Histograms&, const BarycentreUpstream<T>&,        \
      const ImplicitBarycentre&, int);                                                             \
  template PooledVector<double> implicit_weight_gradient(                                          \
      const Scores<T>&, const Barycentre&, const Histograms&, const BarycentreUpstream<T>&,        \
      const ImplicitBarycentre&, const HistogramPotentials&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
