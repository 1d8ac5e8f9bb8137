#include "fenchel/templates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attnkit/error.hpp"
#include "kernel/conjugate.hpp"
#include "kernel/factor.hpp"
#include "kernel/parallel.hpp"

namespace attn::fenchel {
namespace {

// Sums are added up by parts, so that they do not depend on the threads.
constexpr Index rows_of_part = 64;

}  // namespace

Templates::Templates(MatrixView<const double> templates, int threads)
    : centred_(templates.rows, templates.cols),
      centre_(static_cast<std::size_t>(templates.cols), 0.0) {
  const Index parts = (count() + rows_of_part - 1) / rows_of_part;
  Rows<double> sums(parts, depth());
  kernel::parallel_for(parts, threads, [&](Index part, int) {
    double* sum = sums.row(part);
    std::fill_n(sum, depth(), 0.0);
    const Index first = part * rows_of_part;
    // Each is scaled first: the sum of finite numbers might not be finite.
    const double share = 1 / static_cast<double>(count());
    for (Index i = first; i < std::min(count(), first + rows_of_part); ++i) {
      kernel::axpy(sum, templates.row(i), depth(), share);
    }
  });
  for (Index part = 0; part < parts; ++part) {
    kernel::axpy(centre_.data(), sums.row(part), depth(), 1);
  }
  kernel::parallel_for(parts, threads, [&](Index part, int) {
    const Index first = part * rows_of_part;
    for (Index i = first; i < std::min(count(), first + rows_of_part); ++i) {
      const double* from = templates.row(i);
      double* to = centred_.row(i);
      for (Index c = 0; c < depth(); ++c) to[c] = from[c] - centre_[static_cast<std::size_t>(c)];
    }
  });
  lay_out(threads);
}

Templates::Templates(Rows<double> centred, PooledVector<double> centre)
    : centred_(std::move(centred)), centre_(std::move(centre)) {
  lay_out(1);
}

void Templates::lay_out(int threads) {
  for (Index i = 0; i < count(); ++i) {
    const double norm = std::sqrt(kernel::dot(centred_.row(i), centred_.row(i), depth()));
    // A template that is not finite makes the centre not finite, too.
    if (!std::isfinite(norm)) {
      throw Error(Failure::input, "a component of a template is not finite, or too large");
    }
    largest_norm_ = std::max(largest_norm_, norm);
  }
  kernel::parallel_for(2, threads, [&](Index which, int) {
    if (which == 0) by_template_ = kernel::Packed<double>::of_transposed(centred_.read());
    if (which == 1) by_axis_ = kernel::Packed<double>::of(centred_.read());
  });
}

Templates Templates::reduced(Rows<double>& basis) const {
  basis = Rows<double>(count(), depth());
  std::copy_n(centred_.values.data(), count() * depth(), basis.values.data());
  Rows<double> coordinates(count(), count());
  kernel::orthonormal_rows(basis.view(), coordinates.view());
  return Templates(std::move(coordinates),
                   PooledVector<double>(static_cast<std::size_t>(count()), 0.0));
}

void Templates::logits(MatrixView<const double> rows, MatrixView<double> out) const {
  kernel::multiply_packed(1.0, rows, by_template_, 0, out);
}

void Templates::means(MatrixView<const double> weights, MatrixView<double> out) const {
  kernel::multiply_packed(1.0, weights, by_axis_, 0, out);
}

}  // namespace attn::fenchel
