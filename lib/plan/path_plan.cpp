#include <algorithm>
#include <cmath>
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
class PathPlan<T>::Impl {
 public:
  Impl(const Shape& weights, int threads) : weights_("weights", weights, 2) {
    rows_ = weights_.axis(0);
    columns_ = weights_.axis(1);
    if (rows_ < 1) {
      throw Error(Failure::input, "weights are " + to_string(weights) + ", expected rows");
    }
    element_count(join(weights_.leading(), {2 * rows_, columns_}));
    problems_.emplace(weights_.leading(), threads, kernel::ItemParts{columns_, columns_});
  }

  const Shape& leading() const { return problems_->leading(); }
  Shape of_rows(Index rows) const { return join(leading(), {rows, columns_}); }
  Shape weights_shape() const { return of_rows(rows_); }
  Shape values_shape() const { return of_rows(basis_rows(rows_)); }
  Shape skeleton_shape() const { return join(leading(), {columns_}); }
  Shape moments_shape(Optimizer optimizer) const {
    return of_rows(steps_in_paths(optimizer) ? basis_rows(rows_) : 2 * rows_);
  }

  std::int64_t workspace_bytes() const { return problems_->bytes(bytes()); }

  std::vector<Skeleton> cyclic_skeletons() const {
    return std::vector<Skeleton>(static_cast<std::size_t>(problems_->count()),
                                 cyclic_skeleton(rows_, 0, columns_));
  }

  std::vector<Skeleton> largest_skeletons(const PathWeights<const T>& weights) {
    return problems_->run(bytes(), 0, [&] {
      require_finite_weights(weights);
      std::vector<Skeleton> skeletons(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index problem, int) {
        skeletons[static_cast<std::size_t>(problem)] =
            largest_skeleton<T>(matrix(weights.wq, problem), matrix(weights.wk, problem));
      });
      return skeletons;
    });
  }

  void decompose(const PathWeights<const T>& weights, const std::vector<Skeleton>& skeletons,
                 const TensorView<T>& values) {
    return problems_->run(bytes(), 0, [&] {
      require_finite_weights(weights);
      require_skeletons(skeletons);
      plan::require_array("values", values, values_shape());
      problems_->for_each([&](Index problem, int threads) {
        basis_values<T>(matrix(weights.wq, problem), matrix(weights.wk, problem),
                        skeletons[static_cast<std::size_t>(problem)],
                        matrix(values, problem, basis_rows(rows_)), threads);
      });
    });
  }

  void compose(const TensorView<const T>& values, const TensorView<const T>& wk_skeleton,
               const std::vector<Skeleton>& skeletons, const PathWeights<T>& weights) {
    return problems_->run(bytes(), 0, [&] {
      plan::require_array("values", values, values_shape());
      plan::require_array("wk_skeleton", wk_skeleton, skeleton_shape());
      require_weights(weights);
      require_skeletons(skeletons);
      problems_->for_each([&](Index problem, int threads) {
        const std::span<const T> of_skeleton(wk_skeleton.data + problem * columns_,
                                             static_cast<std::size_t>(columns_));
        basis_weights<T>(matrix(values, problem, basis_rows(rows_)),
                         skeletons[static_cast<std::size_t>(problem)], of_skeleton,
                         matrix(weights.wq, problem), matrix(weights.wk, problem), threads);
      });
    });
  }

  std::vector<double> squared_gradients(const std::vector<Skeleton>& skeletons,
                                        const PathWeights<const T>& gradients,
                                        const PathWeights<const T>& weights) {
    return problems_->run(bytes(), 0, [&] {
      require_finite_weights(weights);
      require_skeletons(skeletons);
      const PlanArray grad_wq = gradient("grad_wq", gradients.wq);
      const PlanArray grad_wk = gradient("grad_wk", gradients.wk);
      std::vector<double> sums(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index problem, int) {
        const auto at = static_cast<std::size_t>(problem);
        StepMatrices<const T> matrices;
        matrices.wq = matrix(weights.wq, problem);
        matrices.wk = matrix(weights.wk, problem);
        matrices.grad_wq = {grad_wq.block(gradients.wq, problem), rows_, columns_};
        matrices.grad_wk = {grad_wk.block(gradients.wk, problem), rows_, columns_};
        sums[at] = squared_path_gradients(skeletons[at], matrices);
      });
      return sums;
    });
  }

  std::vector<StepSummary> step(const StepOptions& options, const std::vector<Skeleton>& skeletons,
                                const PathWeights<const T>& gradients,
                                const PathWeights<T>& weights, const PathMoments<T>& moments) {
    return problems_->run(bytes(), 0, [&] {
      plan::require_step_options(options);
      require_finite_weights(PathWeights<const T>(weights));
      const bool in_paths = steps_in_paths(options.optimizer);
      if (in_paths) require_skeletons(skeletons);
      const PlanArray grad_wq = gradient("grad_wq", gradients.wq);
      const PlanArray grad_wk = gradient("grad_wk", gradients.wk);
      const Shape of_moments = moments_shape(options.optimizer);
      const bool keeps_first = keeps_first_moment(options);
      const bool keeps_second = keeps_moments(options.optimizer);
      if (keeps_first) plan::require_array("the first moment", moments.first, of_moments);
      if (keeps_second) plan::require_array("the second moment", moments.second, of_moments);
      const Skeleton no_skeleton;
      std::vector<StepSummary> summaries(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index problem, int threads) {
        const auto at = static_cast<std::size_t>(problem);
        StepMatrices<T> matrices;
        matrices.wq = matrix(weights.wq, problem);
        matrices.wk = matrix(weights.wk, problem);
        matrices.grad_wq = {grad_wq.block(gradients.wq, problem), rows_, columns_};
        matrices.grad_wk = {grad_wk.block(gradients.wk, problem), rows_, columns_};
        const Index rows = of_moments[of_moments.size() - 2];
        if (keeps_first) matrices.first_moment = matrix(moments.first, problem, rows);
        if (keeps_second) matrices.second_moment = matrix(moments.second, problem, rows);
        summaries[at] =
            attn::step<T>(options, in_paths ? skeletons[at] : no_skeleton, matrices, threads);
      });
      return summaries;
    });
  }

 private:
  // A step stores a few numbers for each column.
  std::int64_t bytes() const {
    constexpr std::int64_t of_column = 128;
    return columns_ * of_column;
  }

  template <class U>
  MatrixView<U> matrix(const TensorView<U>& array, Index problem) const {
    return matrix(array, problem, rows_);
  }
  template <class U>
  MatrixView<U> matrix(const TensorView<U>& array, Index problem, Index rows) const {
    return {array.data + problem * rows * columns_, rows, columns_};
  }

  template <class U>
  void require_weights(const PathWeights<U>& weights) const {
    plan::require_array("wq", weights.wq, weights_shape());
    plan::require_array("wk", weights.wk, weights_shape());
  }

  void require_finite_weights(const PathWeights<const T>& weights) const {
    require_weights(weights);
    plan::require_finite("wq", weights.wq);
    plan::require_finite("wk", weights.wk);
  }

  PlanArray gradient(const std::string& name, const TensorView<const T>& array) const {
    plan::require_array(name, array, array.shape);
    PlanArray operand(name, array.shape, 2);
    operand.require_block({rows_, columns_});
    operand.broadcast_to(leading());
    plan::require_finite(name, array);
    return operand;
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

  PlanArray weights_;
  Index rows_ = 0;     // d1
  Index columns_ = 0;  // d2
  std::optional<plan::Problems> problems_;
};

template <class T>
PathPlan<T>::PathPlan(const Shape& weights, int threads)
    : impl_(plan::make<Impl>(weights, threads)) {}
template <class T>
PathPlan<T>::~PathPlan() = default;
template <class T>
PathPlan<T>::PathPlan(PathPlan&&) noexcept = default;
template <class T>
PathPlan<T>& PathPlan<T>::operator=(PathPlan&&) noexcept = default;
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
Shape PathPlan<T>::moments_shape(Optimizer optimizer) const {
  return plan::alive(impl_).moments_shape(optimizer);
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
std::vector<Skeleton> PathPlan<T>::largest_skeletons(const PathWeights<const T>& weights) {
  return plan::alive(impl_).largest_skeletons(weights);
}
template <class T>
std::vector<double> PathPlan<T>::squared_gradients(const std::vector<Skeleton>& skeletons,
                                                   const PathWeights<const T>& gradients,
                                                   const PathWeights<const T>& weights) {
  return plan::alive(impl_).squared_gradients(skeletons, gradients, weights);
}
template <class T>
void PathPlan<T>::decompose(const PathWeights<const T>& weights,
                            const std::vector<Skeleton>& skeletons, TensorView<T> values) {
  plan::alive(impl_).decompose(weights, skeletons, values);
}
template <class T>
void PathPlan<T>::compose(TensorView<const T> values, TensorView<const T> wk_skeleton,
                          const std::vector<Skeleton>& skeletons, const PathWeights<T>& weights) {
  plan::alive(impl_).compose(values, wk_skeleton, skeletons, weights);
}
template <class T>
std::vector<StepSummary> PathPlan<T>::step(const StepOptions& options,
                                           const std::vector<Skeleton>& skeletons,
                                           const PathWeights<const T>& gradients,
                                           const PathWeights<T>& weights,
                                           const PathMoments<T>& moments) {
  return plan::alive(impl_).step(options, skeletons, gradients, weights, moments);
}

template class PathPlan<float>;
template class PathPlan<double>;

}  // namespace attn
