#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "attnkit/basis_paths.hpp"
#include "paths/basis.hpp"
#include "paths/step.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "plan/step_options.hpp"

namespace attn {

using plan::PlanArray;

template <class T>
PathShapes shapes_of(const PathInputs<T>& inputs) {
  using plan::shape_of;
  return {shape_of(inputs.wq), shape_of(inputs.wk), shape_of(inputs.grad_wq),
          shape_of(inputs.grad_wk)};
}

template PathShapes shapes_of(const PathInputs<float>&);
template PathShapes shapes_of(const PathInputs<double>&);

template <class T>
class PathPlan<T>::Impl {
 public:
  Impl(const PathShapes& shapes, const StepOptions& options, const Context& context)
      : options_(options),
        wq_("wq", shapes.wq, 2),
        wk_("wk", shapes.wk, 2),
        grad_wq_("grad_wq", shapes.grad_wq, 2),
        grad_wk_("grad_wk", shapes.grad_wk, 2) {
    plan::require_step_options(options);
    if (!wq_.present() || !wk_.present()) throw Error(Failure::input, "expected wq and wk");
    if (grad_wq_.present() != grad_wk_.present()) {
      throw Error(Failure::input, "expected grad_wq and grad_wk, or neither");
    }
    rows_ = wq_.axis(0);
    columns_ = wq_.axis(1);
    if (rows_ < 1)
      throw Error(Failure::input, "wq is " + to_string(*shapes.wq) + ", expected rows");
    const std::array<PlanArray*, 4> operands = {&wq_, &wk_, &grad_wq_, &grad_wk_};
    for (const PlanArray* operand : operands) operand->require_block({rows_, columns_});
    const Shape leading = plan::common_leading({operands.begin(), operands.end()});
    for (PlanArray* operand : operands) operand->broadcast_to(leading);
    element_count(join(leading, {2 * rows_, columns_}));
    problems_.emplace(leading, context, ItemParts{columns_, columns_});
  }

  void set_step(Index number, double rate, double gradient_factor) {
    options_ = plan::at_step(options_, number, rate, gradient_factor);
  }

  const Shape& leading() const { return problems_->leading(); }
  Shape weights_shape() const { return of_rows(rows_); }
  Shape values_shape() const { return of_rows(basis_rows(rows_)); }
  Shape skeleton_shape() const { return join(leading(), {columns_}); }
  Shape moments_shape() const { return of_rows(moment_rows()); }

  std::int64_t workspace_bytes() const { return problems_->bytes(bytes()); }

  std::vector<Skeleton> cyclic_skeletons() const {
    return std::vector<Skeleton>(static_cast<std::size_t>(problems_->count()),
                                 cyclic_skeleton(rows_, 0, columns_));
  }

  std::vector<Skeleton> largest_skeletons(const PathInputs<T>& inputs) {
    return problems_->run(bytes(), 0, [&] {
      require_weights(inputs);
      std::vector<Skeleton> skeletons(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index problem, int) {
        skeletons[static_cast<std::size_t>(problem)] =
            largest_skeleton<T>(block(wq_, inputs.wq, problem), block(wk_, inputs.wk, problem));
      });
      return skeletons;
    });
  }

  std::vector<StepSummary> run(const PathInputs<T>& inputs, const PathOutputs<T>& outputs) {
    return problems_->run(bytes(), 0, [&] {
      require(inputs, outputs);
      std::vector<StepSummary> summaries(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index problem, int threads) {
        summaries[static_cast<std::size_t>(problem)] = solve(inputs, outputs, problem, threads);
      });
      return summaries;
    });
  }

  void compose(const PathValues<T>& values, const TensorView<T>& wq, const TensorView<T>& wk) {
    return problems_->run(bytes(), 0, [&] {
      plan::require_array("values", values.values, values_shape());
      plan::require_array("wk_skeleton", values.wk_skeleton, skeleton_shape());
      plan::require_array("wq", wq, weights_shape());
      plan::require_array("wk", wk, weights_shape());
      require_skeletons(values.skeletons);
      problems_->for_each([&](Index problem, int threads) {
        const std::span<const T> of_skeleton(values.wk_skeleton.data + problem * columns_,
                                             static_cast<std::size_t>(columns_));
        basis_weights<T>(of_problem(values.values, problem, basis_rows(rows_)),
                         values.skeletons[static_cast<std::size_t>(problem)], of_skeleton,
                         of_problem(wq, problem, rows_), of_problem(wk, problem, rows_), threads);
      });
    });
  }

 private:
  // A step stores a few numbers for each column.
  std::int64_t bytes() const {
    constexpr std::int64_t of_column = 128;
    return columns_ * of_column;
  }

  bool in_paths() const { return steps_in_paths(options_.optimizer); }
  Index moment_rows() const { return in_paths() ? basis_rows(rows_) : 2 * rows_; }
  Shape of_rows(Index rows) const { return join(leading(), {rows, columns_}); }

  // The block of an input, and of a result.
  MatrixView<const T> block(const PlanArray& operand, const TensorView<const T>& given,
                            Index problem) const {
    return {operand.block(given, problem), rows_, columns_};
  }
  template <class U>
  MatrixView<U> of_problem(const TensorView<U>& array, Index problem, Index rows) const {
    return {array.data + problem * rows * columns_, rows, columns_};
  }

  StepSummary solve(const PathInputs<T>& inputs, const PathOutputs<T>& outputs, Index problem,
                    int threads) const {
    static const Skeleton no_skeleton;
    const Skeleton& skeleton = inputs.skeletons.empty()
                                   ? no_skeleton
                                   : inputs.skeletons[static_cast<std::size_t>(problem)];
    const MatrixView<const T> wq = block(wq_, inputs.wq, problem);
    const MatrixView<const T> wk = block(wk_, inputs.wk, problem);
    if (outputs.values) {
      basis_values<T>(wq, wk, skeleton, of_problem(outputs.values, problem, basis_rows(rows_)),
                      threads);
    }
    if (!outputs.squared_gradient && !outputs.wq) return {};
    const MatrixView<const T> grad_wq = block(grad_wq_, inputs.grad_wq, problem);
    const MatrixView<const T> grad_wk = block(grad_wk_, inputs.grad_wk, problem);
    if (outputs.squared_gradient) {
      outputs.squared_gradient.data[problem] =
          squared_path_gradients(skeleton, StepMatrices<const T>{wq, wk, grad_wq, grad_wk});
    }
    if (!outputs.wq) return {};
    StepMatrices<T> matrices{of_problem(outputs.wq, problem, rows_),
                             of_problem(outputs.wk, problem, rows_), grad_wq, grad_wk};
    const auto start = [&](MatrixView<const T> from, MatrixView<T> to) {
      if (from.data != to.data) std::copy_n(from.data, rows_ * columns_, to.data);
    };
    start(wq, matrices.wq);
    start(wk, matrices.wk);
    if (keeps_first_moment(options_)) {
      matrices.first_moment = of_problem(outputs.first_moment, problem, moment_rows());
    }
    if (keeps_moments(options_.optimizer)) {
      matrices.second_moment = of_problem(outputs.second_moment, problem, moment_rows());
    }
    return step<T>(options_, in_paths() ? skeleton : no_skeleton, matrices, threads);
  }

  void require(const PathInputs<T>& inputs, const PathOutputs<T>& outputs) const {
    require_weights(inputs);
    grad_wq_.require(inputs.grad_wq);
    grad_wk_.require(inputs.grad_wk);
    const bool steps = outputs.wq || outputs.wk;
    if (steps) require_step(inputs, outputs);
    plan::require_output("values", outputs.values, values_shape());
    plan::require_output("squared_gradient", outputs.squared_gradient, leading());
    if (steps || outputs.squared_gradient) {
      if (!grad_wq_.present()) {
        throw Error(Failure::usage, "the plan was made without grad_wq and grad_wk");
      }
      plan::require_finite("grad_wq", inputs.grad_wq);
      plan::require_finite("grad_wk", inputs.grad_wk);
    }
    if (!inputs.skeletons.empty() || outputs.values || outputs.squared_gradient ||
        (steps && in_paths())) {
      require_skeletons(inputs.skeletons);
    }
  }

  void require_weights(const PathInputs<T>& inputs) const {
    wq_.require(inputs.wq);
    wk_.require(inputs.wk);
    plan::require_finite("wq", inputs.wq);
    plan::require_finite("wk", inputs.wk);
  }

  void require_step(const PathInputs<T>& inputs, const PathOutputs<T>& outputs) const {
    const auto require_result = [&](const std::string& name, const TensorView<T>& result,
                                    const TensorView<const T>& from) {
      plan::require_array(name, result, weights_shape());
      if (result.data == from.data) plan::require_array(name, from, weights_shape());
    };
    require_result("wq", outputs.wq, inputs.wq);
    require_result("wk", outputs.wk, inputs.wk);
    if (keeps_first_moment(options_)) {
      plan::require_array("the first moment", outputs.first_moment, moments_shape());
    }
    if (keeps_moments(options_.optimizer)) {
      plan::require_array("the second moment", outputs.second_moment, moments_shape());
    }
  }

  void require_skeletons(const std::vector<Skeleton>& skeletons) const {
    if (static_cast<Index>(skeletons.size()) != problems_->count()) {
      throw Error(Failure::input, std::to_string(skeletons.size()) + " skeletons, expected " +
                                      std::to_string(problems_->count()));
    }
    const auto fits = [&](const std::vector<Index>& rows) {
      return static_cast<Index>(rows.size()) == columns_ &&
             std::all_of(rows.begin(), rows.end(),
                         [&](Index row) { return row >= 0 && row < rows_; });
    };
    for (std::size_t n = 0; n < skeletons.size(); ++n) {
      if (fits(skeletons[n].q) && fits(skeletons[n].k)) continue;
      throw Error(Failure::input, "the skeleton of problem " +
                                      index_text(unravel(static_cast<Index>(n), leading())) +
                                      " is not of " + std::to_string(columns_) + " rows below " +
                                      std::to_string(rows_));
    }
  }

  StepOptions options_;
  PlanArray wq_, wk_, grad_wq_, grad_wk_;
  Index rows_ = 0;     // d1
  Index columns_ = 0;  // d2
  std::optional<plan::Problems> problems_;
};

template <class T>
PathPlan<T>::PathPlan(const PathShapes& shapes, const StepOptions& options, const Context& context)
    : impl_(plan::make<Impl>(shapes, options, context)) {}
template <class T>
PathPlan<T>::~PathPlan() = default;
template <class T>
PathPlan<T>::PathPlan(PathPlan&&) noexcept = default;
template <class T>
PathPlan<T>& PathPlan<T>::operator=(PathPlan&&) noexcept = default;
template <class T>
void PathPlan<T>::set_step(Index number, double rate, double gradient_factor) {
  plan::alive(impl_).set_step(number, rate, gradient_factor);
}
template <class T>
const Shape& PathPlan<T>::leading() const {
  return plan::alive(impl_).leading();
}
template <class T>
Shape PathPlan<T>::weights_shape() const {
  return plan::alive(impl_).weights_shape();
}
template <class T>
Shape PathPlan<T>::values_shape() const {
  return plan::alive(impl_).values_shape();
}
template <class T>
Shape PathPlan<T>::skeleton_shape() const {
  return plan::alive(impl_).skeleton_shape();
}
template <class T>
Shape PathPlan<T>::moments_shape() const {
  return plan::alive(impl_).moments_shape();
}
template <class T>
std::int64_t PathPlan<T>::workspace_bytes() const {
  return plan::alive(impl_).workspace_bytes();
}
template <class T>
std::vector<Skeleton> PathPlan<T>::cyclic_skeletons() const {
  return plan::alive(impl_).cyclic_skeletons();
}
template <class T>
std::vector<Skeleton> PathPlan<T>::largest_skeletons(const PathInputs<T>& inputs) {
  return plan::alive(impl_).largest_skeletons(inputs);
}
template <class T>
std::vector<StepSummary> PathPlan<T>::run(const PathInputs<T>& inputs,
                                          const PathOutputs<T>& outputs) {
  return plan::alive(impl_).run(inputs, outputs);
}
template <class T>
void PathPlan<T>::compose(const PathValues<T>& values, TensorView<T> wq, TensorView<T> wk) {
  plan::alive(impl_).compose(values, wq, wk);
}

template class PathPlan<float>;
template class PathPlan<double>;

}  // namespace attn
