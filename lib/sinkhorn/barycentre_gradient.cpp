#include "sinkhorn/barycentre_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sinkhorn/barycentre_system.hpp"
#include "sinkhorn/completed_lines.hpp"
#include "sinkhorn/plan_products.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// Σ x y; y may be infinite where x is 0.
double product_of(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t n = 0; n < x.size(); ++n) sum += x[n] == 0 ? 0 : x[n] * y[n];
  return sum;
}

// The shifts to add to f_k and subtract from g_k so that Σ f_k − Σ g_k is the same for all
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
  const SinkhornOptions transport{
      .stopping = options.stopping, .keeps_errors = false, .tuning = options.tuning};
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
  // Σ π_k is the same for all k and cancels with the mean.
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
