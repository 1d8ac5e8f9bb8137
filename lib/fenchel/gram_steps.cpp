#include <algorithm>
#include <cmath>

#include "fenchel/conjugate_scale.hpp"
#include "fenchel/newton_steps.hpp"
#include "kernel/conjugate.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {
namespace {

struct GramScratch final : StepFinder::Scratch {
  GramScratch(Index rows, Index n)
      : p(rows, n),
        step(rows, n),
        along(rows, n),
        residual(rows, n),
        direction(rows, n),
        logits(rows, n),
        image(rows, n),
        weighted(1, n),
        square(static_cast<std::size_t>(rows)),
        row_of(static_cast<std::size_t>(rows)) {}

  // Slots hold the rows that are not done. Vectors x of d are stored as x̂ with x = T̂ᵀx̂.
  OwnedMatrix<float> p, step, along, residual, direction;
  OwnedMatrix<float> logits;  // Gram matrix times direction
  OwnedMatrix<float> image;   // Gram matrix times residual
  OwnedMatrix<float> weighted;
  PooledVector<double> square;  // ‖residual‖²
  PooledVector<Index> row_of;

  void move(Index from, Index to) {
    if (from == to) return;
    for (OwnedMatrix<float>* rows : {&p, &step, &along, &residual, &direction, &logits}) {
      std::copy_n(rows->row(from), rows->cols(), rows->row(to));
    }
    square[static_cast<std::size_t>(to)] = square[static_cast<std::size_t>(from)];
    row_of[static_cast<std::size_t>(to)] = row_of[static_cast<std::size_t>(from)];
  }
};

// T̂T̂ᵀ: the diagonal and the elements below by products, the rest by symmetry.
kernel::Packed<float> gram_of(const OwnedMatrix<float>& scaled, int threads) {
  const Index n = scaled.rows();
  const auto columns = kernel::Packed<float>::of_transposed(scaled.read(), threads);
  OwnedMatrix<float> gram(n, n);
  constexpr Index panel = 48;
  parallel_for((n + panel - 1) / panel, threads, [&](Index item, int) {
    // The longest first.
    const Index first = ((n + panel - 1) / panel - 1 - item) * panel;
    const Index rows = std::min(panel, n - first);
    kernel::multiply_packed<float>(1, scaled.read().row_range(first, rows), columns, 0,
                                   {gram.row(first), rows, first + rows, n});
  });
  constexpr Index tile = 32;
  for (Index i0 = 0; i0 < n; i0 += tile) {
    for (Index j0 = 0; j0 <= i0; j0 += tile) {
      for (Index i = i0; i < std::min(n, i0 + tile); ++i) {
        for (Index j = j0; j < std::min(i, j0 + tile); ++j) gram.row(j)[i] = gram.row(i)[j];
      }
    }
  }
  return kernel::Packed<float>::of(gram.read());
}

// Whether, for n templates of d, an iteration is less work than by products with the templates.
bool may_pay(Index n, Index d) { return n < 2 * d; }

}  // namespace

GramSteps::GramSteps(const Templates& templates, double alpha, int threads)
    : templates_(templates),
      alpha_(alpha),
      gram_(gram_of(ConjugateScale(templates, alpha).scaled(templates, threads), threads)) {}

bool GramSteps::pays(const Templates& templates, double alpha, Index queries) {
  const auto n = static_cast<double>(templates.count());
  const auto d = static_cast<double>(templates.depth());
  const auto m = static_cast<double>(queries);
  // Iterations of all steps: the root of the condition number, which is far below its bound.
  const double reach = templates.largest_norm();
  const double iterations = std::min(12 * std::sqrt(1 + alpha * reach * reach / 4), 20 * n);
  constexpr double steps = 5;
  // Counts products and sums; float64 counts twice, as do the reads and writes of packing.
  const double gram = n * n * d + m * (iterations * n * n + steps * 2 * n * d);
  return may_pay(templates.count(), templates.depth()) && gram < m * iterations * 2 * n * d;
}

std::int64_t GramSteps::bytes(Index n, Index d) {
  // As computed and as packed.
  constexpr Index padding = 64;
  return may_pay(n, d) ? 2 * n * (n + padding) * static_cast<std::int64_t>(sizeof(float)) : 0;
}

std::unique_ptr<StepFinder::Scratch> GramSteps::scratch(Index rows) const {
  return std::make_unique<GramScratch>(rows, templates_.count());
}

void GramSteps::find(const NewtonPoints& points, const NewtonSteps& steps, Scratch& scratch) const {
  auto& own = static_cast<GramScratch&>(scratch);
  const ConjugateScale scale(templates_, alpha_);
  const Index n = templates_.count();
  const Index rows = points.p.rows;
  Index active = rows;
  for (Index slot = 0; slot < active; ++slot) {
    const double to_one = 1 / points.gradient_norm[slot];
    narrow(points.p.row(slot), n, 1, own.p.row(slot));
    narrow(points.residual.row(slot), n, -scale.size * to_one, own.residual.row(slot));
    std::copy_n(own.residual.row(slot), n, own.direction.row(slot));
    std::fill_n(own.step.row(slot), n, 0.0F);
    std::fill_n(own.along.row(slot), n, 0.0F);
    own.row_of[static_cast<std::size_t>(slot)] = slot;
  }
  kernel::multiply_packed<float>(1, own.direction.first(active), gram_, 0,
                                 own.logits.first(active));
  const auto finish = [&](Index slot, bool slow) {
    const Index row = own.row_of[static_cast<std::size_t>(slot)];
    const double back = scale.back * points.gradient_norm[row];
    widen(own.step.row(slot), n, back / (alpha_ * scale.size), steps.weights.row(row));
    widen(own.along.row(slot), n, back * scale.size, steps.along.row(row));
    if (slow) steps.slow[static_cast<std::size_t>(row)] = 1;
    own.move(--active, slot);
  };
  for (Index slot = active; slot-- > 0;) {
    const double square = kernel::dot(own.direction.row(slot), own.logits.row(slot), n);
    own.square[static_cast<std::size_t>(slot)] = square;
    // Cancellation of weights in T̂ᵀx̂ has cost the norm its digits.
    if (!(square > 0.9 && square < 1.1)) finish(slot, true);
  }
  const auto shift = static_cast<float>(scale.shift);
  const auto weight = static_cast<float>(scale.weight);
  const Index most = most_conjugate_iterations(n, templates_.depth());
  Index iteration = 0;
  while (active > 0) {
    stop_if_asked();
    ++iteration;
    for (Index slot = active; slot-- > 0;) {
      const auto at = static_cast<std::size_t>(slot);
      float* direction = own.direction.row(slot);
      float* weighted = own.weighted.row(0);
      std::copy_n(own.logits.row(slot), n, weighted);
      const double variance = kernel::multiply_covariance(own.p.row(slot), weighted, n);
      const double curvature =
          scale.shift * kernel::dot(direction, own.logits.row(slot), n) + scale.weight * variance;
      const auto step = static_cast<float>(own.square[at] / curvature);
      if (!(curvature > 0 && std::isfinite(step))) {
        finish(slot, true);
        continue;
      }
      kernel::axpy(own.step.row(slot), direction, n, step);
      kernel::axpy(own.along.row(slot), own.logits.row(slot), n, step);
      kernel::axpy(own.residual.row(slot), direction, n, -step * shift);
      kernel::axpy(own.residual.row(slot), weighted, n, -step * weight);
    }
    kernel::multiply_packed<float>(1, own.residual.first(active), gram_, 0,
                                   own.image.first(active));
    for (Index slot = active; slot-- > 0;) {
      const auto at = static_cast<std::size_t>(slot);
      const double square = kernel::dot(own.residual.row(slot), own.image.row(slot), n);
      const double forcing = points.forcing[own.row_of[at]];
      // At most 0: only rounding is left.
      const bool done = square <= forcing * forcing;
      if (done || iteration == most || !(square > 0)) {
        finish(slot, !done);
        continue;
      }
      const auto turn = static_cast<float>(square / own.square[at]);
      kernel::xpby(own.direction.row(slot), own.residual.row(slot), n, turn);
      kernel::xpby(own.logits.row(slot), own.image.row(slot), n, turn);
      own.square[at] = square;
    }
  }
  templates_.means(steps.weights, steps.step);
  for (Index row = 0; row < rows; ++row) {
    for (Index c = 0; c < templates_.depth(); ++c) steps.step(row, c) *= alpha_;
  }
}

}  // namespace attn::fenchel
