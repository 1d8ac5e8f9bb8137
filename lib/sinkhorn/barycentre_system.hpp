#pragma once

#include <numeric>
#include <span>

#include "pass/pass.hpp"
#include "sinkhorn/barycentre_gradient.hpp"

namespace attn {

/// w_k.
inline double weight_of(const Histograms& histograms, Index k) {
  return histograms.weights[static_cast<std::size_t>(k)];
}

/// The sum, added from the first to the last.
inline double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Shows the weights exp((s_ij − g_j) − f_i) of `row` f and `col` g to an observer. Throws whatever
/// the scores throw.
template <class T>
void show_plan(const Scores<T>& scores, std::span<double> row, std::span<double> col,
               Observer<T>& observer, int threads) {
  Pass<T> pass;
  pass.scores = &scores;
  pass.observers = {&observer};
  pass.components = {Component{1, row, col}};
  run(pass, threads);
}

/// The columns' equations of barycentre_gradient.hpp, with U and R eliminated. With q_i = Σ_k
/// w_k/r_ki and M_ki = Σ_j π_kij (G_ij + V_kj) − x_ki/w_k
///
///   R_i = (h_i + Σ_k w_k/r_ki M_ki)/q_i,   U_ki = (R_i − M_ki)/r_ki,
///
/// and the system is w_k (c_k V_k + π_kᵀ U_k) = y_k − w_k π_kᵀ G. The preconditioner is the
/// diagonal w_k c_k; relative to it, eigenvalues are in [0, 1]. The kernel, V_kj = t_k with Σ w_k
/// t_k = 0, does not affect changes that keep the sums of histograms equal.
template <class T>
class BarycentreSystem final : public ImplicitSystem {
 public:
  /// All arguments must outlive the system.
  BarycentreSystem(const Scores<T>& scores, Barycentre& found, const Histograms& histograms,
                   int threads);

  /// L takes potentials with the same Σ f_k − Σ g_k for all k: writes x and y without their part
  /// along the kernel to `row` and `col`. Throws Error(input) if x or y of a histogram of weight 0
  /// is not 0.
  void project(BarycentreUpstream<T>& upstream, Vector& row, Vector& col) const;

  /// y_k − w_k π_kᵀ (G + U) with the U for V = 0, (K, Lk); orthogonal to the kernel.
  Vector right_side(const BarycentreUpstream<T>& upstream) const;

  /// w_k (c_k V_k + π_kᵀ U_k) for V = z, without the terms of L.
  Vector times(const Vector& z) const override;

  /// Makes the sum of each histogram's part μ w_k.
  void balance(Vector& e) const override;

  /// U (K, Lq) and R (Lq) for V and the derivatives of L; absent ones are 0.
  void complete_rows(const Vector* v, const BarycentreUpstream<T>& upstream, Vector& row,
                     Vector& total) const;

  /// The same for rows whose mass is 0 in T, which have U_ki = R_i/p_i − D_ki with the means D_ki
  /// of G_ij + V_kj, and R_i/p_i = h_i + Σ_k w_k D_ki. A column without mass may be near such rows
  /// only.
  void complete_faint_rows(const Vector& v, const BarycentreUpstream<T>& upstream, Vector& row,
                           Vector& total) const;

 private:
  Index rows() const { return scores_.rows(); }
  Index cols() const { return scores_.cols(); }
  static std::size_t at(Index k) { return static_cast<std::size_t>(k); }

  template <class Use>
  void for_weights(const Use& use) const;
  void require_weights(const BarycentreUpstream<T>& upstream) const;
  Vector open_lines() const;
  double apart(Index k, const Vector& row, const Vector& col) const;
  void show(Index k, Observer<T>& observer) const;
  void set_means();
  void add_columns(const Vector& row, const MatrixSource<T>* g, Vector& to) const;

  const Scores<T>& scores_;
  Barycentre& found_;
  const Histograms& histograms_;
  int threads_;
  Vector row_sums_;   // r (K, Lq)
  Vector shares_;     // (K, Lq)
  Vector mean_sums_;  // (Lq)
};

}  // namespace attn
