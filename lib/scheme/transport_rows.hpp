#pragma once

#include <cstdint>

#include "pass/row_selection.hpp"
#include "score/scores.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The weights of the scheme transport for some queries × all keys, and their adjoint. With E_j =
/// exp(s_j − max s), the kernel K of the costs, and u the preferences of a query divided by their
/// sum:
///
///   Z_i = Σ_j K_ij E_j,   R_i = u_i/Z_i,   w_j = E_j Σ_i R_i K_ij,
///   f = max s + Σ_i u_i (log Z_i − m_i/γ),
///
/// two products with K. A key that the query may not attend to is neither target nor source; a key
/// with the preference 0 is no source. A query without a source has weights of 0 and f = −inf.
///
/// For G = ∂L/∂w, with the mean G̅_i = Σ_j K_ij E_j G_j / Z_i of each source, two more products give
///
///   ∂L/∂s_j = w_j G_j − E_j Σ_i R_i G̅_i K_ij,
///   ∂L/∂u_i = (G̅_i − Σ_j w_j G_j) / Σu,
///   ∂L/∂M(j,i) = −R_i K_ij E_j (G_j − G̅_i) / γ.
///
/// All is computed in float64. A Z_i so small that flushed exponentials could count is computed
/// again as a sum of exp(s_j − M(j,i)/γ), without loss; that takes the time of Lk exponentials.
///
/// The terms of ∂L/∂s_j may cancel: if each source has one target, ∂L/∂s is 0, which a division by
/// a small γ would turn into large noise. Where every ∂L/∂s_j of a query is below 2⁻²⁴ of the
/// largest term w_j G_j, derivatives come from the sums
///
///   ∂L/∂s_j = Σ_i u_i p(j|i) ((G_j − G_m) − Σ_l p(l|i) (G_l − G_m)),   m the likeliest target of
///   i,
///
/// which are exactly 0 where every p is 0 or 1; that takes the time of Lk² exponentials for the
/// query. The error is so below Lk·2⁻²⁹ of the largest ∂L/∂s_j of the query.
template <class T>
class TransportRows : public FromPool {
 public:
  /// For up to `most_rows` queries at a time. `scores`, whose terms have the kernel, must outlive
  /// the object.
  TransportRows(const Scores<T>& scores, Index most_rows, bool differentiates);

  /// Computes the weights of these queries. Throws what the scores throw, and Error(numerical)
  /// naming a source with a preference that can go nowhere.
  void make(RowRange rows);

  const RowRange& rows() const { return rows_; }
  Index count() const { return rows_.last - rows_.first; }
  MatrixView<const double> weights() const { return weights_.read().row_range(0, count()); }
  double potential(Index i) const { return potential_[static_cast<std::size_t>(i)]; }
  bool has_source(Index i) const { return total_[static_cast<std::size_t>(i)] > 0; }

  /// Where G goes before `differentiate`; ∂L/∂s and ∂L/∂u after it.
  MatrixView<double> products() { return gradient_.first(count()); }
  void differentiate();
  MatrixView<const double> of_scores() const { return sums_.read().row_range(0, count()); }
  MatrixView<const double> of_preference() const { return means_.read().row_range(0, count()); }

  /// After `differentiate`: −γ ∂L/∂M(j,i) is K_ij A_ij + B_ij, the sums over all queries. Adds
  /// these queries' terms of A and B for some sources i, whose first is row 0 of both. Without
  /// has_rest(), B need not have memory. Several threads may add for different sources at once.
  void add_cost(RowRange sources, MatrixView<double> by_source, MatrixView<double> rest) const;
  bool has_rest() const { return !direct_.empty(); }

  static std::int64_t bytes(Index rows, Index keys, bool differentiates);

 private:
  // A source of a query that is computed by itself, target by target.
  struct Direct {
    Index row = 0;
    Index source = 0;
    double share = 0;    // u
    double largest = 0;  // the largest log (K_ij E_j); −inf: the source goes nowhere, share is 0
    double sum = 0;      // Z over exp(largest)
    Index likeliest = 0;
    double mean = 0;  // G̅ less the G of the likeliest target
  };

  void fill();
  void take_preferences(Index i);
  void add_source(Index i, Index source);
  [[noreturn]] void refuse(Index i, Index source) const;
  // log (K_ij E_j) of all targets j.
  void take_logits(Index i, Index source, double* to) const;
  Direct direct(Index i, Index source, double share);
  // p(j|source) of all targets j.
  void take_targets(const Direct& of, double* p) const;
  void take_mean(Direct& of);
  bool cancels(Index i) const;
  void make_direct(Index i);

  const Scores<T>& scores_;
  const TransportKernel& kernel_;
  Index keys_;
  RowRange rows_;
  Buffer<T> score_storage_, preference_storage_;
  typename Scores<T>::Scratch scratch_;
  OwnedMatrix<double> exponentials_, weights_;
  OwnedMatrix<double> shares_;                      // u, then R; 0 where Z is small
  OwnedMatrix<double> sums_;                        // Z, then ∂L/∂s
  OwnedMatrix<double> gradient_;                    // G less its mean
  OwnedMatrix<double> weighted_;                    // E G
  OwnedMatrix<double> means_;                       // G̅, then ∂L/∂u
  OwnedMatrix<double> opposite_;                    // −R G̅
  PooledVector<double> shift_, total_, potential_;  // max s, Σu, f
  PooledVector<Direct> direct_;
  PooledVector<std::uint8_t> all_direct_;  // whether all sources of a query are
  Buffer<double> targets_;                 // of one source
};

}  // namespace attn
