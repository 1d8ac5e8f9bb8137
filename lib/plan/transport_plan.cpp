#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "attnkit/transport.hpp"
#include "gradient/energy_gradient.hpp"
#include "gradient/plan_gradient.hpp"
#include "pass/column_sums.hpp"
#include "plan/dense_weights.hpp"
#include "plan/input_gradients.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "plan/transport_options.hpp"
#include "plan/transport_source.hpp"
#include "sinkhorn/completed_lines.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "stats/observers.hpp"
#include "tensor/pooled_vector.hpp"
#include "transport/points.hpp"
#include "transport/transport_problem.hpp"

namespace attn {

using plan::PlanArray;

namespace {

using plan::refuse_option;

void require_exact(const TransportOptions& options) {
  const ExactOptions& exact = *options.exact;
  if (!(exact.gap > 0 && exact.gap < 1))
    refuse_option("exact.gap", exact.gap, "a number in (0, 1)");
  if (exact.max_iterations < 1) {
    refuse_option("exact.max_iterations", exact.max_iterations, "at least 1");
  }
  if (!(exact.relaxation >= 1 && exact.relaxation < 2)) {
    refuse_option("exact.relaxation", exact.relaxation, "a number >= 1 and < 2");
  }
  if (exact.simplex_bytes < 0) {
    refuse_option("exact.simplex_bytes", exact.simplex_bytes, "at least 0");
  }
  if (exact.tuning.kept_bytes < 0) {
    refuse_option("exact.tuning.kept_bytes", exact.tuning.kept_bytes, "at least 0");
  }
  const SinkhornOptions& solver = options.solver;
  const bool usual = !solver.stopping.iterations && !solver.stopping.tolerance &&
                     solver.relaxation == 1 && !solver.anneals && solver.tuning.kept_bytes == 0;
  if (!usual || options.epsilon != 1 || options.penalties || options.divergence) {
    throw Error(Failure::usage,
                "exact transport has neither epsilon, solver, penalties nor divergence");
  }
}

// In units of the scores.
void require_joint_penalty(const std::optional<MarginalPenalties>& penalties, double unit) {
  if (!penalties || joint_penalty(*penalties) / unit <= most_joint_penalty) return;
  refuse_option("penalties.row penalties.col/(penalties.row + penalties.col)",
                joint_penalty(*penalties), "at most 2^30 epsilon");
}

const TransportOptions& checked(const TransportOptions& options) {
  const SinkhornOptions& solver = options.solver;
  plan::require_entropic(options.epsilon, solver.stopping, solver.tuning.kept_bytes);
  if (!(solver.relaxation >= 1 && solver.relaxation < 2)) {
    refuse_option("relaxation", solver.relaxation, "a number >= 1 and < 2");
  }
  if (!(options.marginal_rounding >= 0 && options.marginal_rounding < 1)) {
    refuse_option("marginal_rounding", options.marginal_rounding, "a number >= 0 and < 1");
  }
  if (options.exact) require_exact(options);
  const auto require_penalty = [&](const char* name, double value) {
    if (!(value > 0)) refuse_option(name, value, "a number > 0");
  };
  if (options.penalties) {
    require_penalty("penalties.row", options.penalties->row);
    require_penalty("penalties.col", options.penalties->col);
    if (std::isinf(joint_penalty(*options.penalties))) {
      throw Error(Failure::usage, "both penalties are infinite: without penalties sums are exact");
    }
    if (options.divergence && options.penalties->row != options.penalties->col) {
      throw Error(Failure::usage, "a divergence has equal penalties");
    }
  }
  const bool plain = !options.exact && !options.divergence && !options.penalties &&
                     solver.relaxation == 1 && !solver.anneals;
  if (options.gradient == SolutionGradient::unrolled && !plain) {
    throw Error(Failure::usage,
                "unrolled gradients need plain iterations: without exact transport, divergence, "
                "penalties, relaxation and annealing");
  }
  if (solver.anneals && solver.stopping.fixed()) {
    throw Error(Failure::usage, "anneals has no effect with a fixed number of iterations",
                "set a tolerance");
  }
  return options;
}

}  // namespace

template <class T>
TransportShapes shapes_of(const TransportInputs<T>& inputs) {
  using plan::shape_of;
  return {shape_of(inputs.cost),
          shape_of(inputs.scores),
          shape_of(inputs.x),
          shape_of(inputs.y),
          shape_of(inputs.mask),
          shape_of(inputs.row_marginal),
          shape_of(inputs.col_marginal),
          shape_of(inputs.grad_plan),
          shape_of(inputs.grad_row_potential),
          shape_of(inputs.grad_col_potential),
          shape_of(inputs.grad_row_self_potential),
          shape_of(inputs.grad_col_self_potential),
          shape_of(inputs.start)};
}

SolveStatus TransportSummary::status() const {
  SolveStatus worst = SolveStatus::done;
  for (const TransportProblem& problem : problems) worst = std::max(worst, problem.status);
  return worst;
}

template <class T>
class TransportPlan<T>::Impl {
 public:
  Impl(const TransportShapes& shapes, const TransportOptions& options, const Context& context)
      : options_(checked(options)),
        source_(shapes, options.epsilon),
        rows_(source_.rows()),
        cols_(source_.cols()),
        mask_(PlanArray::broadcasting("mask", shapes.mask, 2)),
        row_marginal_("row_marginal", shapes.row_marginal, 1),
        col_marginal_("col_marginal", shapes.col_marginal, 1),
        grad_plan_(PlanArray::broadcasting("grad_plan", shapes.grad_plan, 2)),
        grad_row_("grad_row_potential", shapes.grad_row_potential, 1),
        grad_col_("grad_col_potential", shapes.grad_col_potential, 1),
        grad_row_self_("grad_row_self_potential", shapes.grad_row_self_potential, 1),
        grad_col_self_("grad_col_self_potential", shapes.grad_col_self_potential, 1),
        start_("start", shapes.start, 1) {
    require_joint_penalty(options.penalties, source_.unit());
    if (options.divergence) require_divergence();
    mask_.require_block({rows_, cols_}, true);
    row_marginal_.require_block({rows_});
    col_marginal_.require_block({cols_});
    grad_plan_.require_block({rows_, cols_}, true);
    grad_row_.require_block({rows_});
    grad_col_.require_block({cols_});
    grad_row_self_.require_block({rows_});
    grad_col_self_.require_block({cols_});
    start_.require_block({cols_});
    require_upstream_effect();
    require_start_effect();
    const auto all = operands();
    const Shape leading = plan::common_leading({all.begin(), all.end()});
    for (PlanArray* operand : all) operand->broadcast_to(leading);
    element_count(join(leading, {rows_, cols_}));
    problems_.emplace(leading, context,
                      parts_of_problem(Order::row_panels, false, rows_, cols_, sizeof(T)));
    through_.emplace(
        source_,
        std::array<plan::InputMasses, 2>{{{row_marginal_, {rows_}}, {col_marginal_, {cols_}}}},
        leading, problems_->at_once());
  }

  const Shape& leading() const { return problems_->leading(); }
  Shape row_shape() const { return join(leading(), {rows_}); }
  Shape col_shape() const { return join(leading(), {cols_}); }
  Shape plan_shape() const { return join(leading(), {rows_, cols_}); }

  std::int64_t workspace_bytes() const { return problems_->bytes(bytes(), shared_bytes()); }

  TransportSummary run(const TransportInputs<T>& inputs, const TransportOutputs<T>& outputs) {
    return problems_->run(bytes(), shared_bytes(), [&] {
      require(inputs, outputs);
      TransportSummary summary;
      summary.problems.resize(static_cast<std::size_t>(problems_->count()));
      const SolutionGradients<T>& through = outputs.through_solution;
      through_->run(
          *problems_, "through_solution",
          {through.matrix, {through.row_marginal, through.col_marginal}, through.x, through.y},
          [&](Index problem, const plan::InputGradientParts<T>& by, int threads) {
            summary.problems[static_cast<std::size_t>(problem)] =
                solve(inputs, outputs, by, problem, threads);
          });
      return summary;
    });
  }

 private:
  // Bytes that one problem allocates.
  std::int64_t bytes() const {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    std::int64_t bytes =
        std::max(solver_bytes(),
                 completed_lines_bytes(rows_, cols_, sizeof(T), problems_->inside())) +
        (options_.divergence ? own_divergence_bytes() : 0) +
        std::min(options_.exact ? options_.exact->tuning.kept_bytes : 0,
                 useful_sinkhorn_bytes(options_.solver, rows_, cols_, sizeof(T))) +
        std::min(options_.solver.tuning.kept_bytes,
                 useful_sinkhorn_bytes(options_.solver, rows_, cols_, sizeof(T))) +
        ColumnSums<T>::bytes(partition_of(Order::row_panels, rows_, cols_, sizeof(T)));
    // The allowed pairs, in bits, and the flow over these; O(m + n) without a mask.
    const bool by_pair = !source_.has_points() || mask_.present();
    bytes += (by_pair ? rows_ * cols_ / 4 : 0) + 32 * (rows_ + cols_) * number;
    const int threads = problems_->inside();
    bytes += source_.bytes(sizeof(T), threads);
    if (options_.exact && source_.has_points()) {
      bytes += missing_gradient_bytes(rows_, cols_, source_.depth(), sizeof(T));
    }
    if (source_.has_points() || has_upstream()) {
      bytes +=
          differentiate_plans_bytes(rows_, cols_, options_.divergence ? 9 : 1, sizeof(T), threads);
    }
    if (has_upstream()) {
      // u, v and the derivatives by marginals.
      bytes += through_solution_bytes(options_, rows_, cols_, sizeof(T), threads) +
               (options_.divergence ? 48 : 6) * (rows_ + cols_) * number;
    }
    return bytes;
  }

  // Bytes beside those of the problems.
  std::int64_t shared_bytes() const { return has_upstream() ? through_->bytes() : 0; }

  std::int64_t solver_bytes() const {
    const int threads = problems_->inside();
    if (!options_.exact) return sinkhorn_solver_bytes(rows_, cols_, sizeof(T), threads);
    return exact_transport_bytes(exact_method(*options_.exact, rows_, cols_, sizeof(T)), rows_,
                                 cols_, sizeof(T), threads);
  }

  // Bytes in addition to transport between both sides: each side with itself, and its points.
  std::int64_t own_divergence_bytes() const {
    const Index longer = std::max(rows_, cols_);
    const Index depth = source_.has_points() ? source_.depth() : 0;
    const std::int64_t bytes =
        sinkhorn_solver_bytes(longer, longer, sizeof(T), problems_->inside()) +
        divergence_bytes(rows_, cols_, source_.has_points() ? &gaussian_energy() : nullptr, depth,
                         sizeof(T));
    if (!source_.has_points()) return bytes;
    return bytes + product_gradient_bytes(EnergyKind::gaussian, longer, longer, depth, sizeof(T),
                                          gradient_lanes(longer, problems_->inside()));
  }

  std::vector<PlanArray*> operands() {
    const auto of_scores = source_.operands();
    std::vector<PlanArray*> all(of_scores.begin(), of_scores.end());
    all.insert(all.end(), {&mask_, &row_marginal_, &col_marginal_, &grad_plan_, &grad_row_,
                           &grad_col_, &grad_row_self_, &grad_col_self_, &start_});
    return all;
  }

  bool has_upstream() const {
    return grad_plan_.present() || grad_row_.present() || grad_col_.present() ||
           grad_row_self_.present() || grad_col_self_.present();
  }

  void require_upstream_effect() const {
    const auto refuse = [](const PlanArray& operand, const char* with) {
      if (!operand.present()) return;
      throw Error(Failure::usage, operand.name() + " has no effect " + with);
    };
    if (options_.divergence) refuse(grad_plan_, "with a divergence");
    for (const PlanArray* const operand : {&grad_row_self_, &grad_col_self_}) {
      if (!options_.divergence) refuse(*operand, "without a divergence");
    }
    for (const PlanArray* const operand : {&grad_plan_, &grad_row_, &grad_col_}) {
      if (options_.exact) refuse(*operand, "with exact transport");
    }
  }

  void require_start_effect() const {
    const bool plain = !options_.exact && !options_.divergence && !options_.solver.anneals &&
                       options_.gradient != SolutionGradient::unrolled;
    if (plain || !start_.present()) return;
    throw Error(Failure::usage,
                "start has no effect with exact transport, a divergence, annealing or unrolled "
                "gradients");
  }

  void require_divergence() const {
    if (!source_.of_cost() || mask_.present()) {
      throw Error(Failure::usage, "a divergence requires a cost or points, without a mask");
    }
    if (source_.has_cost() && rows_ != cols_) {
      throw Error(Failure::input,
                  "a divergence requires the square cost of a common support, not " +
                      to_string({rows_, cols_}));
    }
  }

  void require(const TransportInputs<T>& inputs, const TransportOutputs<T>& outputs) const {
    source_.require(inputs);
    mask_.require(inputs.mask);
    row_marginal_.require(inputs.row_marginal);
    col_marginal_.require(inputs.col_marginal);
    grad_plan_.require(inputs.grad_plan);
    grad_row_.require(inputs.grad_row_potential);
    grad_col_.require(inputs.grad_col_potential);
    grad_row_self_.require(inputs.grad_row_self_potential);
    grad_col_self_.require(inputs.grad_col_self_potential);
    start_.require(inputs.start);
    if (start_.present()) {
      plan::require_numbers(start_.name(), inputs.start.data, inputs.start.shape,
                            "finite numbers or -inf",
                            [](double g) { return g <= std::numeric_limits<double>::max(); });
    }
    plan::require_output("row_potential", outputs.row_potential, row_shape());
    plan::require_output("col_potential", outputs.col_potential, col_shape());
    plan::require_output("row_self_potential", outputs.row_self_potential, row_shape());
    plan::require_output("col_self_potential", outputs.col_self_potential, col_shape());
    if (!options_.divergence && (outputs.row_self_potential || outputs.col_self_potential)) {
      throw Error(Failure::usage, "only a divergence has potentials of a side with itself");
    }
    plan::require_output("plan", outputs.plan, plan_shape());
    plan::require_output("row_sum", outputs.row_sum, row_shape());
    plan::require_output("col_sum", outputs.col_sum, col_shape());
    plan::require_output("row_marginal_gradient", outputs.row_marginal_gradient, row_shape());
    plan::require_output("col_marginal_gradient", outputs.col_marginal_gradient, col_shape());
    require_through(outputs.through_solution);
    source_.require_point_outputs("x_gradient", outputs.x_gradient, "y_gradient",
                                  outputs.y_gradient, leading());
    if (options_.divergence && (outputs.plan || outputs.row_sum || outputs.col_sum)) {
      throw Error(Failure::usage, "a divergence has no plan and no sums");
    }
    if (grad_plan_.present()) plan::require_finite(grad_plan_.name(), inputs.grad_plan);
    if (grad_row_.present()) plan::require_finite(grad_row_.name(), inputs.grad_row_potential);
    if (grad_col_.present()) plan::require_finite(grad_col_.name(), inputs.grad_col_potential);
    if (grad_row_self_.present()) {
      plan::require_finite(grad_row_self_.name(), inputs.grad_row_self_potential);
    }
    if (grad_col_self_.present()) {
      plan::require_finite(grad_col_self_.name(), inputs.grad_col_self_potential);
    }
  }

  void require_through(const SolutionGradients<T>& through) const {
    if (!has_upstream() && (through.matrix || through.row_marginal || through.col_marginal ||
                            through.x || through.y)) {
      throw Error(Failure::usage,
                  "through_solution requires grad_plan, grad_row_potential or grad_col_potential");
    }
    if (options_.divergence && source_.has_points() && through.matrix) {
      throw Error(Failure::usage, "through_solution.matrix requires a cost: points have three");
    }
  }

  std::optional<PooledVector<double>> marginal(const PlanArray& operand,
                                               const TensorView<const double>& given,
                                               Index problem) const {
    if (!operand.present()) return std::nullopt;
    const Index size = operand.axis(0);
    const double* const first = operand.block(given, problem);
    plan::require_numbers(operand.name(), first, {size}, "finite numbers >= 0",
                          [](double value) { return value >= 0 && std::isfinite(value); });
    return PooledVector<double>(first, first + size);
  }

  TransportProblem solve(const TransportInputs<T>& inputs, const TransportOutputs<T>& outputs,
                         const plan::InputGradientParts<T>& through, Index problem,
                         int threads) const {
    const auto mask = plan::broadcast_block<std::uint8_t>(mask_, inputs.mask, problem, 1);
    const plan::SourceScores<T> made(source_, inputs, problem, mask ? &*mask : nullptr);
    const Scores<T>& scores = made.scores();
    Marginals marginals = complete_marginals(marginal(row_marginal_, inputs.row_marginal, problem),
                                             marginal(col_marginal_, inputs.col_marginal, problem),
                                             scores.allowed_counts(), source_.of_cost());
    if (options_.penalties) {
      marginals.penalties = {options_.penalties->row / source_.unit(),
                             options_.penalties->col / source_.unit()};
    }
    const auto grad_plan = plan::broadcast_block<T>(grad_plan_, inputs.grad_plan, problem);
    const auto rows = [&](const TensorView<double>& output) {
      return plan::output_span(output, problem, rows_);
    };
    const auto cols = [&](const TensorView<double>& output) {
      return plan::output_span(output, problem, cols_);
    };
    Shown shown(outputs, problem, rows_, cols_);
    std::optional<DenseGradient<T>> matrix = source_.pairs(through.matrix.data(), source_.unit());
    const TransportTargets<T> to{
        .row_potential = rows(outputs.row_potential),
        .col_potential = cols(outputs.col_potential),
        .row_self_potential = rows(outputs.row_self_potential),
        .col_self_potential = cols(outputs.col_self_potential),
        .plan = shown.observers(),
        .optimum = {rows(outputs.row_marginal_gradient),
                    cols(outputs.col_marginal_gradient),
                    {source_.points(
                        inputs, plan::output_block(outputs.x_gradient, problem, point_size(rows_)),
                        plan::output_block(outputs.y_gradient, problem, point_size(cols_)), false,
                        problem)}},
        .through_solution = {
            through.masses[0],
            through.masses[1],
            {source_.points(inputs, through.x.data(), through.y.data(), true, problem),
             matrix ? &*matrix : nullptr}}};
    TransportProblem found = solve_transport<T>(
        {.scores = scores,
         .marginals = marginals,
         .options = options_,
         .unit = source_.unit(),
         .of_cost = source_.of_cost(),
         .upstream = {grad_plan ? &*grad_plan : nullptr,
                      plan::vector_block(grad_row_, inputs.grad_row_potential, problem),
                      plan::vector_block(grad_col_, inputs.grad_col_potential, problem)},
         .row_self_upstream =
             plan::vector_block(grad_row_self_, inputs.grad_row_self_potential, problem),
         .col_self_upstream =
             plan::vector_block(grad_col_self_, inputs.grad_col_self_potential, problem),
         .start = plan::vector_block(start_, inputs.start, problem)},
        to, threads);
    if (found.status == SolveStatus::infeasible) {
      void_outputs(outputs, problem);
      through.set_to_nan();
    } else {
      through.require_finite("through_solution");
      shown.write_sums();
    }
    return found;
  }

  // The results observed of a plan.
  class Shown {
   public:
    Shown(const TransportOutputs<T>& outputs, Index problem, Index rows, Index cols)
        : row_sum_(plan::output_span(outputs.row_sum, problem, rows)),
          col_sum_(plan::output_span(outputs.col_sum, problem, cols)) {
      if (T* const to = plan::output_block(outputs.plan, problem, rows * cols)) {
        dense_.emplace(MatrixView<T>(to, rows, cols));
        observers_.push_back(&*dense_);
      }
      if (outputs.row_sum) observers_.push_back(&row_sums_);
      if (outputs.col_sum) observers_.push_back(&col_sums_);
    }

    const ObserverList<T>& observers() const { return observers_; }

    void write_sums() {
      if (!row_sum_.empty()) write_result(row_sum_, row_sums_.values());
      if (!col_sum_.empty()) write_result(col_sum_, col_sums_.values());
    }

   private:
    std::span<double> row_sum_, col_sum_;
    RowSums<T> row_sums_;
    ColumnSums<T> col_sums_;
    std::optional<DenseWeights<T>> dense_;
    ObserverList<T> observers_;
  };

  void void_outputs(const TransportOutputs<T>& outputs, Index problem) const {
    for (const auto* const by_row : {&outputs.row_potential, &outputs.row_self_potential,
                                     &outputs.row_sum, &outputs.row_marginal_gradient}) {
      plan::void_block(*by_row, problem, rows_);
    }
    for (const auto* const by_col : {&outputs.col_potential, &outputs.col_self_potential,
                                     &outputs.col_sum, &outputs.col_marginal_gradient}) {
      plan::void_block(*by_col, problem, cols_);
    }
    plan::void_block(outputs.plan, problem, rows_ * cols_);
    plan::void_block(outputs.x_gradient, problem, point_size(rows_));
    plan::void_block(outputs.y_gradient, problem, point_size(cols_));
  }

  // Numbers of `count` points; 0 without points.
  Index point_size(Index count) const { return source_.has_points() ? count * source_.depth() : 0; }

  TransportOptions options_;
  plan::TransportSource source_;
  Index rows_, cols_;
  PlanArray mask_, row_marginal_, col_marginal_;
  PlanArray grad_plan_, grad_row_, grad_col_, grad_row_self_, grad_col_self_, start_;
  std::optional<plan::Problems> problems_;
  std::optional<plan::InputGradients<T>> through_;
};

template <class T>
TransportPlan<T>::TransportPlan(const TransportShapes& shapes, const TransportOptions& options,
                                const Context& context)
    : impl_(plan::make<Impl>(shapes, options, context)) {}
template <class T>
TransportPlan<T>::~TransportPlan() = default;
template <class T>
TransportPlan<T>::TransportPlan(TransportPlan&&) noexcept = default;
template <class T>
TransportPlan<T>& TransportPlan<T>::operator=(TransportPlan&&) noexcept = default;
template <class T>
const Shape& TransportPlan<T>::leading() const {
  return plan::alive(impl_).leading();
}
template <class T>
Shape TransportPlan<T>::row_shape() const {
  return plan::alive(impl_).row_shape();
}
template <class T>
Shape TransportPlan<T>::col_shape() const {
  return plan::alive(impl_).col_shape();
}
template <class T>
Shape TransportPlan<T>::plan_shape() const {
  return plan::alive(impl_).plan_shape();
}
template <class T>
std::int64_t TransportPlan<T>::workspace_bytes() const {
  return plan::alive(impl_).workspace_bytes();
}
template <class T>
TransportSummary TransportPlan<T>::run(const TransportInputs<T>& inputs,
                                       const TransportOutputs<T>& outputs) {
  return plan::alive(impl_).run(inputs, outputs);
}

template TransportShapes shapes_of(const TransportInputs<float>&);
template TransportShapes shapes_of(const TransportInputs<double>&);
template class TransportPlan<float>;
template class TransportPlan<double>;

}  // namespace attn
