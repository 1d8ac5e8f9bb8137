#include "fenchel/hull_distance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/conjugate.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn::fenchel {
namespace {

bool is_open(const double* closed, Index i) { return closed == nullptr || !std::isinf(closed[i]); }

double bound_along(MatrixView<const double> templates, const double* closed, const double* point,
                   const double* along) {
  const Index d = templates.cols;
  const double norm = std::sqrt(kernel::dot(along, along, d));
  if (!(norm > 0)) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < templates.rows; ++i) {
    if (!is_open(closed, i)) continue;
    double sum = 0;
    for (Index c = 0; c < d; ++c) sum += (point[c] - templates(i, c)) * along[c];
    least = std::min(least, sum / norm);
  }
  return std::max(least, 0.0);
}

// Subtracts from `row` its part along the first `count` rows of an orthonormal basis. Twice, since
// the first subtraction leaves its rounding.
void make_orthogonal(const OwnedMatrix<double>& basis, Index count, double* row) {
  for (int pass = 0; pass < 2; ++pass) {
    for (Index b = 0; b < count; ++b) {
      const double along = kernel::dot(basis.row(b), row, basis.cols());
      kernel::axpy(row, basis.row(b), basis.cols(), -along);
    }
  }
}

}  // namespace

double distance_from_hull(MatrixView<const double> templates, const double* closed,
                          const NearPoint& near) {
  const Index n = templates.rows;
  const Index d = templates.cols;
  constexpr double weightless = 1e-9;
  OwnedMatrix<double> basis(std::min(n, d), d);
  OwnedMatrix<double> row(1, d);
  Index count = 0;
  for (Index i = 0; i < n && count < d; ++i) {
    if (!(near.p[i] >= weightless)) continue;
    for (Index c = 0; c < d; ++c) row.row(0)[c] = templates(i, c) - near.mean[c];
    const double whole = std::sqrt(kernel::dot(row.row(0), row.row(0), d));
    make_orthogonal(basis, count, row.row(0));
    const double left = std::sqrt(kernel::dot(row.row(0), row.row(0), d));
    if (!(left > 1e-9 * whole)) continue;  // in the span of the others, to rounding
    for (Index c = 0; c < d; ++c) basis.row(count)[c] = row.row(0)[c] / left;
    if (++count == basis.rows()) break;
  }
  std::copy_n(near.away, d, row.row(0));
  make_orthogonal(basis, count, row.row(0));
  return std::max(bound_along(templates, closed, near.point, near.away),
                  bound_along(templates, closed, near.point, row.row(0)));
}

}  // namespace attn::fenchel
