#pragma once

#include <memory>

#include "fenchel/divergence.hpp"
#include "fenchel/dual.hpp"
#include "fenchel/templates.hpp"
#include "fenchel/transport.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {

/// Throws Error(input) if the shapes of a problem disagree.
void require_shapes(const DualProblem& problem);

/// What λ, its square and its logits may be.
constexpr double dual_range = 1e150;

/// Throws Error(input) for an evidence that is not finite, Error(numerical) if λ, its square or its
/// logits may be beyond the format.
void require_range(const DualProblem& problem, const Templates& templates);

/// The coordinates in which queries are solved: coordinates of the centred templates, or of their
/// span.
class Space {
 public:
  /// `all` must outlive the space. `reduce` requires n <= d.
  Space(const Templates& all, bool reduce);

  const Templates& templates() const { return *templates_; }
  bool is_reduced() const { return reduced_ != nullptr; }
  Index depth() const { return templates_->depth(); }

  /// Writes the coordinates (m, d) of rows (m, D).
  void project(MatrixView<const double> rows, MatrixView<double> out) const;
  /// out += the vectors that have these rows of coordinates.
  void add_lifted(MatrixView<const double> rows, MatrixView<double> out) const;
  /// The part of `row` (1, D) outside its `coordinates` (d).
  OwnedMatrix<double> outside(MatrixView<const double> row, const double* coordinates) const;

 private:
  const Templates* templates_;
  OwnedMatrix<double> basis_;
  std::unique_ptr<Templates> reduced_;
};

/// The divergence of a problem for one preference, with its memory.
class OwnedDivergence {
 public:
  /// `cost` is null for KL. u (n) must outlive the object; is_empty() if u is all 0.
  OwnedDivergence(const ScaledCost* cost, const double* u, Index n);
  bool is_empty() const { return divergence_ == nullptr; }
  Divergence& operator*() const { return *divergence_; }
  Divergence* operator->() const { return divergence_.get(); }

 private:
  PooledVector<double> price_;
  std::unique_ptr<Divergence> divergence_;
};

}  // namespace attn::fenchel
