#include "sinkhorn/barycentre_system.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "attnkit/error.hpp"
#include "sinkhorn/completed_lines.hpp"
#include "sinkhorn/plan_products.hpp"

namespace attn {

template <class T>
template <class Use>
void BarycentreSystem<T>::for_weights(const Use& use) const {
  for (Index k = 0; k < histograms_.count; ++k) {
    if (const double weight = weight_of(histograms_, k); weight > 0) use(k, weight);
  }
}

template <class T>
BarycentreSystem<T>::BarycentreSystem(const Scores<T>& scores, Barycentre& found,
                                      const Histograms& histograms, int threads)
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

template <class T>
void BarycentreSystem<T>::project(BarycentreUpstream<T>& upstream, Vector& row, Vector& col) const {
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

template <class T>
ImplicitSystem::Vector BarycentreSystem<T>::right_side(
    const BarycentreUpstream<T>& upstream) const {
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

template <class T>
ImplicitSystem::Vector BarycentreSystem<T>::times(const Vector& z) const {
  Vector row, total;
  complete_rows(&z, {}, row, total);
  Vector product(z.size());
  for (std::size_t n = 0; n < z.size(); ++n) product[n] = diagonal_[n] * z[n];
  add_columns(row, nullptr, product);
  return product;
}

template <class T>
void BarycentreSystem<T>::balance(Vector& e) const {
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

template <class T>
void BarycentreSystem<T>::complete_rows(const Vector* v, const BarycentreUpstream<T>& upstream,
                                        Vector& row, Vector& total) const {
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

template <class T>
void BarycentreSystem<T>::complete_faint_rows(const Vector& v,
                                              const BarycentreUpstream<T>& upstream, Vector& row,
                                              Vector& total) const {
  if (std::find(mean_sums_.begin(), mean_sums_.end(), 0.0) == mean_sums_.end()) return;
  Vector common(static_cast<std::size_t>(rows()));
  std::copy(upstream.masses.begin(), upstream.masses.end(), common.begin());
  for_weights([&](Index k, double weight) {
    const Vector means = row_means<T>(scores_, part_of(found_.col, k, cols()), upstream.plan,
                                      part_of(v, k, cols()), threads_);
    const auto own = part_of(row, k, rows());
    for (std::size_t i = 0; i < common.size(); ++i) {
      // Histograms without mass add nothing.
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

// Throws for x or y of a histogram of weight 0.
template <class T>
void BarycentreSystem<T>::require_weights(const BarycentreUpstream<T>& upstream) const {
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
template <class T>
ImplicitSystem::Vector BarycentreSystem<T>::open_lines() const {
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

// The sum of rows less the sum of columns.
template <class T>
double BarycentreSystem<T>::apart(Index k, const Vector& row, const Vector& col) const {
  return sum_of(part_of(row, k, rows())) - sum_of(part_of(col, k, cols()));
}

template <class T>
void BarycentreSystem<T>::show(Index k, Observer<T>& observer) const {
  show_plan<T>(scores_, part_of(found_.row, k, rows()), part_of(found_.col, k, cols()), observer,
               threads_);
}

// 1/q, the harmonic mean of a row's sums, and the shares w_k/(q r_ki) of histograms in it; all
// are 0 for a row without mass in T.
template <class T>
void BarycentreSystem<T>::set_means() {
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
template <class T>
void BarycentreSystem<T>::add_columns(const Vector& row, const MatrixSource<T>* g,
                                      Vector& to) const {
  for_weights([&](Index k, double weight) {
    PlanProducts<T> products(part_of(row, k, rows()), {}, g);
    show(k, products);
    const auto columns = part_of(to, k, cols());
    for (std::size_t j = 0; j < columns.size(); ++j) columns[j] += weight * products.cols()[j];
  });
}

template class BarycentreSystem<float>;
template class BarycentreSystem<double>;

}  // namespace attn
