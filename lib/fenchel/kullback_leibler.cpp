#include "fenchel/kullback_leibler.hpp"

#include <cmath>

#include "kernel/conjugate.hpp"
#include "kernel/factor.hpp"

namespace attn::fenchel {

Index weighted_deviations(MatrixView<const double> templates, const double* p, const double* mean,
                          MatrixView<double> out) {
  // A step need not be exact, and fewer templates mean fewer rows.
  constexpr double counts = 1e-17;
  Index rows = 0;
  for (Index i = 0; i < templates.rows; ++i) {
    if (!(p[i] > counts)) continue;
    const double root = std::sqrt(p[i]);
    const double* t = templates.row(i);
    double* to = out.row(rows++);
    for (Index c = 0; c < templates.cols; ++c) to[c] = root * (t[c] - mean[c]);
  }
  return rows;
}

void KullbackLeibler::add_hessian(MatrixView<const double> templates, const double* p,
                                  const double* mean, MatrixView<double> out) {
  if (deviations_.rows() == 0) deviations_ = OwnedMatrix<double>(templates.rows, templates.cols);
  const Index rows = weighted_deviations(templates, p, mean, deviations_.view());
  kernel::add_gram(deviations_.first(rows), 1.0, out);
}

double KullbackLeibler::curvature(const double* p, double* along) {
  return kernel::multiply_covariance(p, along, n_);
}

}  // namespace attn::fenchel
