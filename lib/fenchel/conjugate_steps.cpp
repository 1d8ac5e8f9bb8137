#include <algorithm>
#include <cmath>

#include "fenchel/conjugate_scale.hpp"
#include "fenchel/newton_steps.hpp"
#include "kernel/conjugate.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::fenchel {
namespace {

struct ConjugateScratch final : StepFinder::Scratch {
  ConjugateScratch(Index rows, Index n, Index d)
      : p(rows, n),
        logits(rows, n),
        weighted(rows, n),
        along(rows, n),
        step(rows, d),
        residual(rows, d),
        direction(rows, d),
        image(rows, d),
        square(static_cast<std::size_t>(rows)),
        variance(static_cast<std::size_t>(rows)),
        row_of(static_cast<std::size_t>(rows)) {}

  // Slots hold the rows that are not done.
  OwnedMatrix<float> p, logits, weighted, along, step, residual, direction, image;
  PooledVector<double> square;    // ‖residual‖²
  PooledVector<double> variance;  // of the direction's logits under p
  PooledVector<Index> row_of;

  void move(Index from, Index to) {
    if (from == to) return;
    for (OwnedMatrix<float>* rows : {&p, &along, &step, &residual, &direction}) {
      std::copy_n(rows->row(from), rows->cols(), rows->row(to));
    }
    square[static_cast<std::size_t>(to)] = square[static_cast<std::size_t>(from)];
    row_of[static_cast<std::size_t>(to)] = row_of[static_cast<std::size_t>(from)];
  }
};

}  // namespace

ConjugateSteps::ConjugateSteps(const Templates& templates, double alpha, int threads)
    : templates_(templates),
      alpha_(alpha),
      scaled_(ConjugateScale(templates, alpha).scaled(templates, threads)),
      products_(scaled_, threads) {}

std::unique_ptr<StepFinder::Scratch> ConjugateSteps::scratch(Index rows) const {
  return std::make_unique<ConjugateScratch>(rows, templates_.count(), templates_.depth());
}

void ConjugateSteps::find(const NewtonPoints& points, const NewtonSteps& steps,
                          Scratch& scratch) const {
  auto& own = static_cast<ConjugateScratch&>(scratch);
  const ConjugateScale scale(templates_, alpha_);
  const Index n = templates_.count();
  const Index d = templates_.depth();
  Index active = points.p.rows;
  for (Index slot = 0; slot < active; ++slot) {
    narrow(points.p.row(slot), n, 1, own.p.row(slot));
    narrow(points.gradient.row(slot), d, 1 / points.gradient_norm[slot], own.residual.row(slot));
    std::copy_n(own.residual.row(slot), d, own.direction.row(slot));
    std::fill_n(own.step.row(slot), d, 0.0F);
    std::fill_n(own.along.row(slot), n, 0.0F);
    own.square[static_cast<std::size_t>(slot)] = 1;
    own.row_of[static_cast<std::size_t>(slot)] = slot;
  }
  const auto finish = [&](Index slot, bool slow) {
    const Index row = own.row_of[static_cast<std::size_t>(slot)];
    const double back = scale.back * points.gradient_norm[row];
    widen(own.step.row(slot), d, back, steps.step.row(row));
    widen(own.along.row(slot), n, back * scale.size, steps.along.row(row));
    if (slow) steps.slow[static_cast<std::size_t>(row)] = 1;
    own.move(--active, slot);
  };
  const auto shift = static_cast<float>(scale.shift);
  const auto weight = static_cast<float>(scale.weight);
  const Index most = most_conjugate_iterations(n, d);
  Index iteration = 0;
  while (active > 0) {
    stop_if_asked();
    ++iteration;
    products_.logits(own.direction.first(active), own.logits.first(active));
    for (Index slot = 0; slot < active; ++slot) {
      std::copy_n(own.logits.row(slot), n, own.weighted.row(slot));
      own.variance[static_cast<std::size_t>(slot)] =
          kernel::multiply_covariance(own.p.row(slot), own.weighted.row(slot), n);
    }
    products_.means(own.weighted.first(active), own.image.first(active));
    // From the last slot down: a slot that replaces a finished one has been processed already.
    for (Index slot = active; slot-- > 0;) {
      const auto at = static_cast<std::size_t>(slot);
      float* direction = own.direction.row(slot);
      float* residual = own.residual.row(slot);
      const double curvature =
          scale.shift * kernel::dot(direction, direction, d) + scale.weight * own.variance[at];
      const auto step = static_cast<float>(own.square[at] / curvature);
      if (!(curvature > 0 && std::isfinite(step))) {
        finish(slot, true);
        continue;
      }
      kernel::axpy(own.step.row(slot), direction, d, step);
      kernel::axpy(own.along.row(slot), own.logits.row(slot), n, step);
      kernel::axpy(residual, direction, d, -step * shift);
      kernel::axpy(residual, own.image.row(slot), d, -step * weight);
      const double square = kernel::dot(residual, residual, d);
      const bool done = std::sqrt(square) <= points.forcing[own.row_of[at]];
      if (done || iteration == most) {
        finish(slot, !done);
        continue;
      }
      kernel::xpby(direction, residual, d, static_cast<float>(square / own.square[at]));
      own.square[at] = square;
    }
  }
}

}  // namespace attn::fenchel
