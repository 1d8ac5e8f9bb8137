#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "attnkit/dual.hpp"
#include "fenchel/dual.hpp"
#include "fenchel/queries.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

using plan::PlanArray;

namespace {

void require_options(const DualPlanOptions& options) {
  const auto require_positive = [](const std::string& name, double value) {
    // NaN fails the comparison.
    if (value > 0 && std::isfinite(value)) return;
    throw Error(Failure::usage,
                name + " is " + std::to_string(value) + ", expected a finite number > 0");
  };
  require_positive("alpha", options.alpha);
  if (options.square_radius) {
    require_positive("square_radius", *options.square_radius);
    if (options.alpha != DualPlanOptions().alpha) {
      throw Error(Failure::usage, "alpha has no effect with square_radius");
    }
  }
  require_positive("gamma", options.gamma);
  require_positive("tolerance", options.solver.tolerance);
  if (options.solver.gradient_tolerance) {
    require_positive("gradient_tolerance", *options.solver.gradient_tolerance);
  }
  if (options.solver.max_iterations < 1) {
    throw Error(Failure::usage, "max_iterations is " +
                                    std::to_string(options.solver.max_iterations) +
                                    ", expected at least 1");
  }
}

// An array in float64.
class WideArray {
 public:
  WideArray(const char* name, const TensorView<const float>& from)
      : shape_(from.shape), numbers_(from.data == nullptr ? 0 : element_count(from.shape)) {
    require_dense(name, from.shape, from.strides);
    std::copy_n(from.data, numbers_.size(), numbers_.data());
  }
  TensorView<const double> view() const {
    return {numbers_.size() > 0 ? numbers_.data() : nullptr, shape_};
  }

 private:
  Shape shape_;
  Buffer<double> numbers_;
};

}  // namespace

template <class T>
DualShapes shapes_of(const DualOperands<T>& inputs) {
  using plan::shape_of;
  return {shape_of(inputs.templates), shape_of(inputs.evidence), shape_of(inputs.preference),
          shape_of(inputs.cost)};
}

template DualShapes shapes_of(const DualOperands<float>&);
template DualShapes shapes_of(const DualOperands<double>&);

class DualPlan::Impl {
 public:
  Impl(const DualShapes& shapes, const DualPlanOptions& options, const Context& context)
      : options_(options),
        templates_("templates", shapes.templates, 2),
        evidence_("evidence", shapes.evidence, 2),
        preference_(PlanArray::broadcasting("preference", shapes.preference, 2)),
        cost_("cost", shapes.cost, 2) {
    require_options(options);
    if (!templates_.present() || !evidence_.present()) {
      throw Error(Failure::input, "expected templates and evidence");
    }
    if (!cost_.present() && options.gamma != DualPlanOptions().gamma) {
      throw Error(Failure::usage, "gamma goes with a cost");
    }
    if (cost_.present() && options.square_radius) {
      throw Error(Failure::usage, "square_radius requires the divergence KL, without a cost");
    }
    count_ = templates_.axis(0);
    depth_ = templates_.axis(1);
    queries_ = evidence_.axis(0);
    evidence_.require_block({queries_, depth_});
    require_preference();
    cost_.require_block({count_, count_});
    const auto all = operands();
    const Shape leading = plan::common_leading({all.begin(), all.end()});
    for (PlanArray* operand : all) operand->broadcast_to(leading);
    element_count(join(leading, {queries_, count_}));
    element_count(join(leading, {queries_, depth_}));
    problems_.emplace(leading, context, ItemParts{dual_blocks(queries_), queries_});
    uniform_.assign(preference_.present() ? 0 : static_cast<std::size_t>(count_), 1.0);
  }

  const Shape& leading() const { return problems_->leading(); }
  Shape lambda_shape() const { return join(leading(), {queries_, depth_}); }
  Shape p_shape() const { return join(leading(), {queries_, count_}); }

  std::int64_t workspace_bytes() const { return problems_->bytes(bytes()); }

  std::vector<DualSummary> run(const DualInputs& inputs, const DualOutputs& outputs) {
    return problems_->run(bytes(), 0, [&] {
      require(inputs, outputs);
      std::vector<DualSummary> summaries(static_cast<std::size_t>(problems_->count() * queries_));
      problems_->for_each([&](Index problem, int threads) {
        const auto found = solve(inputs, outputs, problem, threads);
        std::copy(found.begin(), found.end(), summaries.begin() + problem * queries_);
      });
      return summaries;
    });
  }

 private:
  // Bytes that one problem allocates.
  std::int64_t bytes() const {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    const int threads = problems_->inside();
    // With a radius, the closed forms of each query are computed separately.
    const std::int64_t by_query =
        options_.square_radius ? threads * dual_bytes(1, count_, depth_, false, 1) : 0;
    return dual_bytes(queries_, count_, depth_, cost_.present(), threads) + by_query +
           queries_ * (depth_ + 1) * number;
  }

  std::array<PlanArray*, 4> operands() { return {&templates_, &evidence_, &preference_, &cost_}; }

  void require_preference() const {
    if (!preference_.present()) return;
    if (preference_.axis(0) != 1 || preference_.axis(1) != count_) {
      preference_.require_block({queries_, count_});
    }
  }

  void require(const DualInputs& inputs, const DualOutputs& outputs) const {
    templates_.require(inputs.templates);
    evidence_.require(inputs.evidence);
    preference_.require(inputs.preference);
    cost_.require(inputs.cost);
    plan::require_output("lambda", outputs.lambda, lambda_shape());
    plan::require_output("h", outputs.h, lambda_shape());
    plan::require_output("p", outputs.p, p_shape());
    plan::require_output("first_order_h", outputs.first_order_h, lambda_shape());
    plan::require_output("first_order_p", outputs.first_order_p, p_shape());
    plan::require_output("second_order_h", outputs.second_order_h, lambda_shape());
  }

  MatrixView<double> of_problem(const TensorView<double>& output, Index problem,
                                Index width) const {
    double* const first = plan::output_block(output, problem, queries_ * width);
    return first == nullptr ? MatrixView<double>() : MatrixView<double>(first, queries_, width);
  }

  PooledVector<DualSummary> solve(const DualInputs& inputs, const DualOutputs& outputs,
                                  Index problem, int threads) const {
    DualProblem made;
    made.templates = {templates_.block(inputs.templates, problem), count_, depth_};
    made.evidence = {evidence_.block(inputs.evidence, problem), queries_, depth_};
    made.preference = {uniform_.data(), 1, count_};
    if (preference_.present()) {
      made.preference = {preference_.block(inputs.preference, problem), preference_.axis(0),
                         count_};
    }
    made.alpha = options_.alpha;
    if (cost_.present()) {
      made.transport =
          TransportCost{{cost_.block(inputs.cost, problem), count_, count_}, options_.gamma};
    }
    QueryTargets targets;
    targets.lambda = of_problem(outputs.lambda, problem, depth_);
    targets.h = of_problem(outputs.h, problem, depth_);
    targets.p = of_problem(outputs.p, problem, count_);
    targets.closed_forms = {of_problem(outputs.first_order_h, problem, depth_),
                            of_problem(outputs.first_order_p, problem, count_),
                            of_problem(outputs.second_order_h, problem, depth_)};
    return solve_queries(made, options_.square_radius, options_.solver, {}, threads, targets);
  }

  DualPlanOptions options_;
  PlanArray templates_, evidence_, preference_, cost_;
  Index count_ = 0;    // n
  Index depth_ = 0;    // d
  Index queries_ = 0;  // Q
  std::optional<plan::Problems> problems_;
  std::vector<double> uniform_;  // u (n) if the preference is absent
};

DualPlan::DualPlan(const DualShapes& shapes, const DualPlanOptions& options, const Context& context)
    : impl_(plan::make<Impl>(shapes, options, context)) {}
DualPlan::~DualPlan() = default;
DualPlan::DualPlan(DualPlan&&) noexcept = default;
DualPlan& DualPlan::operator=(DualPlan&&) noexcept = default;
const Shape& DualPlan::leading() const { return plan::alive(impl_).leading(); }
Shape DualPlan::lambda_shape() const { return plan::alive(impl_).lambda_shape(); }
Shape DualPlan::p_shape() const { return plan::alive(impl_).p_shape(); }
std::int64_t DualPlan::workspace_bytes() const { return plan::alive(impl_).workspace_bytes(); }
std::vector<DualSummary> DualPlan::run(const DualOperands<double>& inputs,
                                       const DualOutputs& outputs) {
  return plan::alive(impl_).run(inputs, outputs);
}
std::vector<DualSummary> DualPlan::run(const DualOperands<float>& inputs,
                                       const DualOutputs& outputs) {
  const WideArray templates("templates", inputs.templates), evidence("evidence", inputs.evidence);
  const WideArray preference("preference", inputs.preference), cost("cost", inputs.cost);
  return run({templates.view(), evidence.view(), preference.view(), cost.view()}, outputs);
}

}  // namespace attn
