#pragma once

#include <span>

#include "fenchel/template_products.hpp"
#include "tensor/owned_matrix.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {

/// The templates of a problem minus a common centre, laid out for products. The dual is the same
/// for all centres, but logits and means of templates far from the origin would lose digits.
class Templates : public FromPool {
 public:
  /// Subtracts the mean of the templates, on up to `threads` threads. Throws Error(input) if one is
  /// not finite.
  explicit Templates(MatrixView<const double> templates, int threads = 1);

  /// The same templates in an orthonormal basis of their span, n <= d: n coordinates instead of d.
  /// Orthogonal to the span, λ always equals αz.
  Templates reduced(OwnedMatrix<double>& basis) const;

  Index count() const { return centred_.rows(); }
  Index depth() const { return centred_.cols(); }
  const OwnedMatrix<double>& centred() const { return centred_; }
  std::span<const double> centre() const { return centre_; }
  double largest_norm() const { return largest_norm_; }

  /// out = rows (m, d) times each template: (m, n).
  void logits(MatrixView<const double> rows, MatrixView<double> out) const {
    products_.logits(rows, out);
  }
  /// out = weights (m, n) times the templates: (m, d).
  void means(MatrixView<const double> weights, MatrixView<double> out) const {
    products_.means(weights, out);
  }

 private:
  Templates(OwnedMatrix<double> centred, PooledVector<double> centre);
  void set_largest_norm(int threads);

  OwnedMatrix<double> centred_;
  PooledVector<double> centre_;
  double largest_norm_ = 0;
  TemplateProducts<double> products_;
};

}  // namespace attn::fenchel
