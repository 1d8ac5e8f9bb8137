#include "fenchel/templates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attnkit/error.hpp"
#include "kernel/conjugate.hpp"
#include "kernel/factor.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/infinity.hpp"

namespace attn::fenchel {
namespace {

// Sums are added up by parts, so that they do not depend on the threads.
constexpr Index rows_of_part = 64;

Index parts_of(Index rows) { return (rows + rows_of_part - 1) / rows_of_part; }

}  // namespace

Templates::Templates(MatrixView<const double> templates, int threads)
    : centred_(templates.rows, templates.cols),
      centre_(static_cast<std::size_t>(templates.cols), 0.0) {
  const Index parts = parts_of(count());
  OwnedMatrix<double> sums(parts, depth());
  parallel_for(parts, threads, [&](Index part, int) {
    double* sum = sums.row(part);
    std::fill_n(sum, depth(), 0.0);
    const Index first = part * rows_of_part;
    // Each template is scaled first: the sum of finite numbers might not be finite.
    const double share = 1 / static_cast<double>(count());
    for (Index i = first; i < std::min(count(), first + rows_of_part); ++i) {
      kernel::axpy(sum, templates.row(i), depth(), share);
    }
  });
  for (Index part = 0; part < parts; ++part) {
    kernel::axpy(centre_.data(), sums.row(part), depth(), 1);
  }
  parallel_for(parts, threads, [&](Index part, int) {
    const Index first = part * rows_of_part;
    for (Index i = first; i < std::min(count(), first + rows_of_part); ++i) {
      const double* from = templates.row(i);
      double* to = centred_.row(i);
      for (Index c = 0; c < depth(); ++c) to[c] = from[c] - centre_[static_cast<std::size_t>(c)];
    }
  });
  set_largest_norm(threads);
  products_ = TemplateProducts<double>(centred_, threads);
}

Templates::Templates(OwnedMatrix<double> centred, PooledVector<double> centre)
    : centred_(std::move(centred)), centre_(std::move(centre)) {
  set_largest_norm(1);
  products_ = TemplateProducts<double>(centred_, 1);
}

void Templates::set_largest_norm(int threads) {
  const Index parts = parts_of(count());
  PooledVector<double> largest(static_cast<std::size_t>(parts), 0.0);
  parallel_for(parts, threads, [&](Index part, int) {
    double& most = largest[static_cast<std::size_t>(part)];
    const Index first = part * rows_of_part;
    for (Index i = first; i < std::min(count(), first + rows_of_part); ++i) {
      const double* row = centred_.row(i);
      const double norm = std::sqrt(kernel::dot(row, row, depth()));
      // A template that is not finite makes the centre not finite, too; a NaN would get lost.
      most = std::max(most, std::isfinite(norm) ? norm : infinity);
    }
  });
  for (const double norm : largest) largest_norm_ = std::max(largest_norm_, norm);
  if (!std::isfinite(largest_norm_)) {
    throw Error(Failure::input, "a component of a template is not finite, or too large");
  }
}

Templates Templates::reduced(OwnedMatrix<double>& basis) const {
  basis = OwnedMatrix<double>(count(), depth());
  std::copy_n(centred_.data(), count() * depth(), basis.data());
  OwnedMatrix<double> coordinates(count(), count());
  kernel::orthonormal_rows(basis.view(), coordinates.view());
  return Templates(std::move(coordinates),
                   PooledVector<double>(static_cast<std::size_t>(count()), 0.0));
}

}  // namespace attn::fenchel
