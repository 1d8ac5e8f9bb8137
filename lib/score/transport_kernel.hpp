#pragma once

#include <cstdint>
#include <string>

#include "score/matrix_source.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The cost M of transport among n keys, and its exponentials (MATHEMATICS.md §4). Row i belongs to
/// key i as a source, column t to key t as a target. Each row is taken relative to its least cost
/// m_i = min_t M(t,i), which changes no probability p(t|i):
///
///   K_it = exp(−(M(t,i) − m_i)/γ), at most 1; 0 for a cost of +inf, which forbids the way.
///
/// 16 n² bytes.
class TransportKernel : public FromPool {
 public:
  /// Reads M (n, n), with the target as row and the source as column; the source of numbers yields
  /// −M, as ready-made scores of a cost do. Throws Error(input) for a cost below 0 or a gamma that
  /// is not a finite number > 0, Error(numerical) if M/γ is beyond float64.
  template <class T>
  TransportKernel(const MatrixSource<T>& minus_cost, Index n, double gamma,
                  std::string name = "cost");

  double gamma() const { return gamma_; }
  /// The address of the costs, for messages.
  const std::string& name() const { return name_; }
  Index count() const { return scaled_.rows(); }

  MatrixView<const double> exponentials() const { return exponentials_.read(); }

  /// m_i/γ; +inf for a source that can go nowhere.
  double least(Index source) const { return least_[static_cast<std::size_t>(source)]; }

  /// (M(t,i) − m_i)/γ (n), +inf for a forbidden way.
  const double* scaled(Index source) const { return scaled_.row(source); }

  static std::int64_t bytes(Index n) {
    return (2 * n + 1) * n * static_cast<std::int64_t>(sizeof(double));
  }

 private:
  double gamma_;
  std::string name_;
  OwnedMatrix<double> scaled_;
  OwnedMatrix<double> exponentials_;
  PooledVector<double> least_;
};

}  // namespace attn
