#include <algorithm>

#include "fenchel/newton_steps.hpp"
#include "kernel/factor.hpp"

namespace attn::fenchel {
namespace {

Index product_count(Index d) { return d * (d + 1) / 2; }

struct MomentScratch final : StepFinder::Scratch {
  MomentScratch(Index rows, Index d) : moments(rows, product_count(d)), hessian(d, d) {}
  OwnedMatrix<double> moments;
  OwnedMatrix<double> hessian;
};

}  // namespace

MomentSteps::MomentSteps(const Templates& templates, double alpha)
    : templates_(templates), alpha_(alpha) {
  const Index d = templates.depth();
  OwnedMatrix<double> products(templates.count(), product_count(d));
  for (Index i = 0; i < templates.count(); ++i) {
    const double* t = templates.centred().row(i);
    double* to = products.row(i);
    for (Index a = 0; a < d; ++a) {
      for (Index b = 0; b <= a; ++b) *to++ = t[a] * t[b];
    }
  }
  products_ = kernel::Packed<double>::of(products.read());
}

std::unique_ptr<StepFinder::Scratch> MomentSteps::scratch(Index rows) const {
  return std::make_unique<MomentScratch>(rows, templates_.depth());
}

void MomentSteps::find(const NewtonPoints& points, const NewtonSteps& steps,
                       Scratch& scratch) const {
  auto& own = static_cast<MomentScratch&>(scratch);
  const Index m = points.p.rows;
  const Index d = templates_.depth();
  kernel::multiply_packed(1.0, points.p, products_, 0, own.moments.first(m));
  for (Index row = 0; row < m; ++row) {
    const double* mean = points.mean.row(row);
    const double* moment = own.moments.row(row);
    for (Index a = 0; a < d; ++a) {
      double* to = own.hessian.row(a);
      for (Index b = 0; b <= a; ++b) to[b] = *moment++ - mean[a] * mean[b];
      to[a] += 1 / alpha_;
    }
    double* step = steps.step.row(row);
    std::copy_n(points.gradient.row(row), d, step);
    // If rounding has made the matrix indefinite, the gradient itself serves as a poor direction.
    if (kernel::cholesky(own.hessian.view())) {
      kernel::cholesky_solve(own.hessian.read(), step);
    } else {
      for (Index a = 0; a < d; ++a) step[a] *= alpha_;
      steps.slow[static_cast<std::size_t>(row)] = 1;
    }
  }
  templates_.logits(steps.step, steps.along);
}

std::int64_t MomentSteps::bytes(Index n, Index d) {
  return kernel::Packed<double>::bytes(n, product_count(d)) +
         n * product_count(d) * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace attn::fenchel
