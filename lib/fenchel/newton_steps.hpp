#pragma once

#include <cstdint>

#include "fenchel/templates.hpp"
#include "kernel/packed.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {

/// The present points of several queries, for KL; row r of each matrix belongs to one query.
struct NewtonPoints {
  MatrixView<const double> p;         ///< (m, n)
  MatrixView<const double> mean;      ///< of the centred templates under p (m, d)
  MatrixView<const double> gradient;  ///< of D (m, d)
  MatrixView<const double> residual;  ///< w − u + p (m, n) where λ = αz + αT'ᵀw; see needs_residual
  const double* gradient_norm;  ///< (m)
  const double* forcing;  ///< (m) the wanted ‖H step − gradient‖ relative to the gradient's norm
};

/// The steps of the queries: H step = gradient, H = I/α + T'ᵀ(diag p − p pᵀ)T'.
struct NewtonSteps {
  MatrixView<double> step;           ///< (m, d)
  MatrixView<double> along;          ///< T' step (m, n)
  MatrixView<double> weights;        ///< (m, n) with αT'ᵀ weights = step, if there is a residual
  PooledVector<std::uint8_t>& slow;  ///< set for rows whose step is poor
};

/// A method that finds Newton steps of several queries at once. The result of a row depends only on
/// that row. Shared by threads; each has a Scratch.
class StepFinder : public FromPool {
 public:
  struct Scratch : public FromPool {
    virtual ~Scratch() = default;
  };
  virtual ~StepFinder() = default;
  virtual std::unique_ptr<Scratch> scratch(Index rows) const = 0;
  virtual void find(const NewtonPoints& points, const NewtonSteps& steps,
                    Scratch& scratch) const = 0;
  virtual bool needs_residual() const { return false; }
};

/// By the second moments of p, from one product with all pairwise products of axes, and Cholesky;
/// for d <= most_depth.
class MomentSteps final : public StepFinder {
 public:
  static constexpr Index most_depth = 16;
  MomentSteps(const Templates& templates, double alpha);
  std::unique_ptr<Scratch> scratch(Index rows) const override;
  void find(const NewtonPoints& points, const NewtonSteps& steps, Scratch& scratch) const override;
  static std::int64_t bytes(Index n, Index d);

 private:
  const Templates& templates_;
  double alpha_;
  kernel::Packed<double> products_;  // (n, d(d+1)/2)
};

/// By conjugate gradients in float32 (Hestenes and Stiefel): all rows share each product with the
/// templates, and a row leaves when it is done.
class ConjugateSteps final : public StepFinder {
 public:
  ConjugateSteps(const Templates& templates, double alpha, int threads);
  std::unique_ptr<Scratch> scratch(Index rows) const override;
  void find(const NewtonPoints& points, const NewtonSteps& steps, Scratch& scratch) const override;

 private:
  const Templates& templates_;
  double alpha_;
  OwnedMatrix<float> scaled_;  // the templates without their common scale
  TemplateProducts<float> products_;
};

/// The same through the Gram matrix of the templates: one product of (m, n) by (n, n) per iteration
/// instead of two with the templates. Vectors of d are stored as weights of the templates, and
/// norms use the Gram matrix.
class GramSteps final : public StepFinder {
 public:
  GramSteps(const Templates& templates, double alpha, int threads);
  std::unique_ptr<Scratch> scratch(Index rows) const override;
  void find(const NewtonPoints& points, const NewtonSteps& steps, Scratch& scratch) const override;
  bool needs_residual() const override { return true; }

  /// Whether GramSteps take less work than ConjugateSteps, the Gram matrix included.
  static bool pays(const Templates& templates, double alpha, Index queries);
  /// Bytes of the Gram matrix; 0 for shapes for which it never pays.
  static std::int64_t bytes(Index n, Index d);

 private:
  const Templates& templates_;
  double alpha_;
  kernel::Packed<float> gram_;
};

}  // namespace attn::fenchel
