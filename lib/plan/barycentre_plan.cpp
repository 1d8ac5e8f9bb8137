#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/barycentre.hpp"
#include "gradient/plan_gradient.hpp"
#include "plan/input_gradients.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "plan/transport_options.hpp"
#include "plan/transport_source.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "tensor/pooled_vector.hpp"
#include "transport/barycentre_problem.hpp"

namespace attn {

using plan::PlanArray;

template <class T>
BarycentreShapes shapes_of(const BarycentreInputs<T>& inputs) {
  using plan::shape_of;
  return {shape_of(inputs.cost),
          shape_of(inputs.scores),
          shape_of(inputs.x),
          shape_of(inputs.y),
          shape_of(inputs.histograms),
          shape_of(inputs.weights),
          shape_of(inputs.grad_barycentre),
          shape_of(inputs.grad_plan),
          shape_of(inputs.grad_row_potential),
          shape_of(inputs.grad_col_potential)};
}

SolveStatus BarycentreSummary::status() const {
  SolveStatus worst = SolveStatus::done;
  for (const BarycentreResult& problem : problems) worst = std::max(worst, problem.status);
  return worst;
}

template <class T>
class BarycentrePlan<T>::Impl {
 public:
  Impl(const BarycentreShapes& shapes, const BarycentrePlanOptions& options, const Context& context)
      : options_(checked(options)),
        source_(shapes, options.epsilon),
        rows_(source_.rows()),
        cols_(source_.cols()),
        histograms_("histograms", shapes.histograms, 2),
        weights_("weights", shapes.weights, 1),
        grad_masses_("grad_barycentre", shapes.grad_barycentre, 1),
        grad_plan_(PlanArray::broadcasting("grad_plan", shapes.grad_plan, 2)),
        grad_row_("grad_row_potential", shapes.grad_row_potential, 2),
        grad_col_("grad_col_potential", shapes.grad_col_potential, 2) {
    if (!histograms_.present()) throw Error(Failure::input, "expected histograms");
    count_ = histograms_.axis(0);
    if (count_ == 0) throw Error(Failure::input, "histograms has none, expected at least one");
    if (rows_ == 0)
      throw Error(Failure::input, "the barycentre has no places, expected at least one");
    histograms_.require_block({count_, cols_});
    weights_.require_block({count_});
    grad_masses_.require_block({rows_});
    grad_plan_.require_block({rows_, cols_}, true);
    grad_row_.require_block({count_, rows_});
    grad_col_.require_block({count_, cols_});
    const auto of_scores = source_.operands();
    std::vector<PlanArray*> all(of_scores.begin(), of_scores.end());
    all.insert(all.end(),
               {&histograms_, &weights_, &grad_masses_, &grad_plan_, &grad_row_, &grad_col_});
    const Shape leading = plan::common_leading({all.begin(), all.end()});
    for (PlanArray* operand : all) operand->broadcast_to(leading);
    element_count(join(leading, {rows_, cols_}));
    problems_.emplace(leading, context,
                      parts_of_problem(Order::row_panels, false, rows_, cols_, sizeof(T)));
    through_.emplace(
        source_,
        std::array<plan::InputMasses, 2>{{{histograms_, {count_, cols_}}, {weights_, {count_}}}},
        leading, problems_->at_once());
  }

  const Shape& leading() const { return problems_->leading(); }
  Shape barycentre_shape() const { return join(leading(), {rows_}); }
  Shape histogram_shape() const { return join(leading(), {count_, cols_}); }
  std::int64_t workspace_bytes() const { return problems_->bytes(bytes(), shared_bytes()); }

  BarycentreSummary run(const BarycentreInputs<T>& inputs, const BarycentreOutputs<T>& outputs) {
    return problems_->run(bytes(), shared_bytes(), [&] {
      require(inputs, outputs);
      BarycentreSummary summary;
      summary.problems.resize(static_cast<std::size_t>(problems_->count()));
      const BarycentreGradients<T>& to = outputs.through_barycentre;
      through_->run(*problems_, "through_barycentre",
                    {to.matrix, {to.histograms, to.weights}, to.x, to.y},
                    [&](Index problem, const plan::InputGradientParts<T>& by, int threads) {
                      summary.problems[static_cast<std::size_t>(problem)] =
                          solve(inputs, outputs, by, problem, threads);
                    });
      return summary;
    });
  }

 private:
  bool has_upstream() const {
    return grad_masses_.present() || grad_plan_.present() || grad_row_.present() ||
           grad_col_.present();
  }

  // Bytes beside those of the problems.
  std::int64_t shared_bytes() const { return has_upstream() ? through_->bytes() : 0; }

  static const BarycentrePlanOptions& checked(const BarycentrePlanOptions& options) {
    plan::require_entropic(options.epsilon, options.solver.stopping,
                           options.solver.tuning.kept_bytes);
    const double rounding = options.histogram_rounding;
    if (!(rounding >= 0 && rounding < 1)) {
      plan::refuse_option("histogram_rounding", rounding, "a number >= 0 and < 1");
    }
    return options;
  }

  // Bytes that one problem allocates.
  std::int64_t bytes() const {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    const int threads = problems_->inside();
    const SinkhornOptions solver{.stopping = options_.solver.stopping};
    // Histograms and weights, three pairs of potentials, derivatives by histograms.
    const Index held = count_ * (4 * rows_ + 6 * cols_ + 4) + 2 * rows_;
    return held * number + source_.bytes(sizeof(T), threads) +
           std::min(options_.solver.tuning.kept_bytes,
                    useful_sinkhorn_bytes(solver, rows_, cols_, sizeof(T))) +
           barycentre_bytes(rows_, cols_, count_, sizeof(T), threads) +
           barycentre_gradient_bytes(rows_, cols_, count_, sizeof(T), threads) +
           differentiate_plans_bytes(rows_, cols_, count_, sizeof(T), threads);
  }

  void require(const BarycentreInputs<T>& inputs, const BarycentreOutputs<T>& outputs) const {
    source_.require(inputs);
    histograms_.require(inputs.histograms);
    weights_.require(inputs.weights);
    require_upstream(grad_masses_, inputs.grad_barycentre);
    require_upstream(grad_plan_, inputs.grad_plan);
    require_upstream(grad_row_, inputs.grad_row_potential);
    require_upstream(grad_col_, inputs.grad_col_potential);
    plan::require_output("barycentre", outputs.barycentre, barycentre_shape());
    plan::require_output("row_potential", outputs.row_potential, join(leading(), {count_, rows_}));
    plan::require_output("col_potential", outputs.col_potential, histogram_shape());
    require_optimum(outputs.optimum);
    if (!has_upstream() && wanted(outputs.through_barycentre)) {
      throw Error(Failure::usage,
                  "through_barycentre requires grad_barycentre, grad_plan, grad_row_potential or "
                  "grad_col_potential");
    }
  }

  template <class U>
  static void require_upstream(const PlanArray& operand, const TensorView<const U>& given) {
    operand.require(given);
    if (operand.present()) plan::require_finite(operand.name(), given);
  }

  static bool wanted(const BarycentreGradients<T>& to) {
    return to.matrix || to.histograms || to.weights || to.x || to.y;
  }

  void require_optimum(const BarycentreGradients<T>& to) const {
    plan::require_output("optimum.matrix", to.matrix, join(leading(), {rows_, cols_}));
    plan::require_output("optimum.histograms", to.histograms, histogram_shape());
    plan::require_output("optimum.weights", to.weights, join(leading(), {count_}));
    source_.require_point_outputs("optimum.x", to.x, "optimum.y", to.y, leading());
  }

  PooledVector<double> masses(const PlanArray& operand, const TensorView<const double>& given,
                              Index problem) const {
    const double* const first = operand.block(given, problem);
    const Shape& shape = operand.block_shape();
    plan::require_numbers(operand.name(), first, shape, "finite numbers >= 0",
                          [](double value) { return value >= 0 && std::isfinite(value); });
    return PooledVector<double>(first, first + element_count(shape));
  }

  BarycentreResult solve(const BarycentreInputs<T>& inputs, const BarycentreOutputs<T>& outputs,
                         const plan::InputGradientParts<T>& through, Index problem,
                         int threads) const {
    PooledVector<double> a = masses(histograms_, inputs.histograms, problem);
    PooledVector<double> w(static_cast<std::size_t>(count_), 1.0);
    if (weights_.present()) w = masses(weights_, inputs.weights, problem);
    const double sum = std::accumulate(w.begin(), w.end(), 0.0);
    if (!(sum > 0) || std::isinf(sum)) {
      throw Error(Failure::input,
                  "weights adds up to " + std::to_string(sum) + ", expected a finite number > 0");
    }
    for (double& weight : w) weight /= sum;
    const plan::SourceScores<T> made(source_, inputs, problem, nullptr);
    const HistogramTotals totals = equalise(a, count_, options_.histogram_rounding);
    if (!totals.equal) return infeasible(outputs, through, problem);
    const Histograms histograms{count_, a, w};
    const auto grad_plan = plan::broadcast_block<T>(grad_plan_, inputs.grad_plan, problem);
    // A derivative of the optimum is of minus the cost, whose unit is 1.
    const plan::InputGradientParts<T> optimum = optimum_parts(outputs.optimum, problem);
    std::optional<DenseGradient<T>> by_cost = source_.pairs(optimum.matrix.data(), 1);
    std::optional<DenseGradient<T>> by_scores =
        source_.pairs(through.matrix.data(), source_.unit());
    const auto derivatives = [&](const plan::InputGradientParts<T>& to, DenseGradient<T>* pairs,
                                 bool of_scores) {
      return BarycentreDerivatives<T>{
          to.masses[0],
          to.masses[1],
          {source_.points(inputs, to.x.data(), to.y.data(), of_scores, problem), pairs}};
    };
    const BarycentreResult result = solve_barycentre<T>(
        {.scores = made.scores(),
         .histograms = histograms,
         .total = totals.first,
         .weight_sum = sum,
         .options = options_.solver,
         .unit = source_.unit(),
         .of_cost = source_.of_cost(),
         .upstream = {plan::vector_block(grad_masses_, inputs.grad_barycentre, problem),
                      grad_plan ? &*grad_plan : nullptr,
                      plan::vector_block(grad_row_, inputs.grad_row_potential, problem),
                      plan::vector_block(grad_col_, inputs.grad_col_potential, problem)}},
        {.barycentre = plan::output_span(outputs.barycentre, problem, rows_),
         .row_potential = plan::output_span(outputs.row_potential, problem, count_ * rows_),
         .col_potential = plan::output_span(outputs.col_potential, problem, count_ * cols_),
         .optimum = derivatives(optimum, by_cost ? &*by_cost : nullptr, false),
         .through_barycentre = derivatives(through, by_scores ? &*by_scores : nullptr, true)},
        threads);
    through.require_finite("through_barycentre");
    return result;
  }

  plan::InputGradientParts<T> optimum_parts(const BarycentreGradients<T>& to, Index problem) const {
    const Index depth = source_.has_points() ? source_.depth() : 0;
    return {plan::output_span(to.matrix, problem, rows_ * cols_),
            {plan::output_span(to.histograms, problem, count_ * cols_),
             plan::output_span(to.weights, problem, count_)},
            plan::output_span(to.x, problem, rows_ * depth),
            plan::output_span(to.y, problem, cols_ * depth)};
  }

  BarycentreResult infeasible(const BarycentreOutputs<T>& outputs,
                              const plan::InputGradientParts<T>& through, Index problem) const {
    plan::void_block(outputs.barycentre, problem, rows_);
    plan::void_block(outputs.row_potential, problem, count_ * rows_);
    plan::void_block(outputs.col_potential, problem, count_ * cols_);
    through.set_to_nan();
    optimum_parts(outputs.optimum, problem).set_to_nan();
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    BarycentreResult result;
    result.status = SolveStatus::infeasible;
    result.row_error = result.col_error = nan;
    result.value = result.primal = result.dual = result.gap = nan;
    if (wanted(outputs.through_barycentre)) result.through_barycentre = infeasible_figures();
    return result;
  }

  BarycentrePlanOptions options_;
  plan::TransportSource source_;
  Index rows_, cols_;  // m, n
  Index count_ = 0;    // K
  PlanArray histograms_, weights_;
  PlanArray grad_masses_, grad_plan_, grad_row_, grad_col_;
  std::optional<plan::Problems> problems_;
  std::optional<plan::InputGradients<T>> through_;
};

template <class T>
BarycentrePlan<T>::BarycentrePlan(const BarycentreShapes& shapes,
                                  const BarycentrePlanOptions& options, const Context& context)
    : impl_(plan::make<Impl>(shapes, options, context)) {}
template <class T>
BarycentrePlan<T>::~BarycentrePlan() = default;
template <class T>
BarycentrePlan<T>::BarycentrePlan(BarycentrePlan&&) noexcept = default;
template <class T>
BarycentrePlan<T>& BarycentrePlan<T>::operator=(BarycentrePlan&&) noexcept = default;
template <class T>
const Shape& BarycentrePlan<T>::leading() const {
  return plan::alive(impl_).leading();
}
template <class T>
Shape BarycentrePlan<T>::barycentre_shape() const {
  return plan::alive(impl_).barycentre_shape();
}
template <class T>
Shape BarycentrePlan<T>::histogram_shape() const {
  return plan::alive(impl_).histogram_shape();
}
template <class T>
std::int64_t BarycentrePlan<T>::workspace_bytes() const {
  return plan::alive(impl_).workspace_bytes();
}
template <class T>
BarycentreSummary BarycentrePlan<T>::run(const BarycentreInputs<T>& inputs,
                                         const BarycentreOutputs<T>& outputs) {
  return plan::alive(impl_).run(inputs, outputs);
}

template BarycentreShapes shapes_of(const BarycentreInputs<float>&);
template BarycentreShapes shapes_of(const BarycentreInputs<double>&);
template class BarycentrePlan<float>;
template class BarycentrePlan<double>;

}  // namespace attn
