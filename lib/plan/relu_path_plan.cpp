#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "attnkit/relu_paths.hpp"
#include "paths/relu_basis.hpp"
#include "paths/relu_step.hpp"
#include "paths/step.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "plan/step_options.hpp"

namespace attn {

using plan::PlanArray;

namespace {

Error wrong_count(const std::string& name, std::size_t found, std::size_t expected) {
  return {Failure::input, std::to_string(found) + " matrices of " + name + ", expected " +
                              std::to_string(expected)};
}

std::string nth(const std::string& name, std::size_t n) {
  return name + " " + std::to_string(n + 1);
}

std::vector<PlanArray> matrices(const std::string& name, const std::vector<Shape>& shapes) {
  std::vector<PlanArray> made;
  for (const Shape& shape : shapes) made.emplace_back(nth(name, made.size()), shape, 2);
  return made;
}

// n_0, …, n_L.
std::vector<Index> sizes_of(const std::vector<PlanArray>& weights) {
  if (weights.empty()) throw Error(Failure::input, "expected weights of at least one layer");
  std::vector<Index> sizes = {weights.front().axis(0)};
  Index count = 0;
  for (const PlanArray& layer : weights) {
    layer.require_block({sizes.back(), layer.axis(1)});
    sizes.push_back(layer.axis(1));
    const Index more = element_count(layer.block_shape());
    if (more > std::numeric_limits<Index>::max() - count) {
      throw Error(Failure::input, "the layers have too many weights");
    }
    count += more;
  }
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    if (sizes[n] >= 1) continue;
    throw Error(Failure::input, "layer " + std::to_string(n) + " has size " +
                                    std::to_string(sizes[n]) + ", expected at least 1");
  }
  return sizes;
}

void require_relu_options(const StepOptions& options) {
  plan::require_step_options(options);
  if (options.optimizer == Optimizer::si_sgd_printed) {
    throw Error(Failure::usage, "si_sgd_printed is no optimizer of ReLU networks");
  }
}

}  // namespace

template <class T>
ReluShapes shapes_of(const ReluInputs<T>& inputs) {
  ReluShapes shapes;
  for (const auto& one : inputs.weights) shapes.weights.push_back(one.shape);
  for (const auto& one : inputs.gradients) shapes.gradients.push_back(one.shape);
  return shapes;
}

template ReluShapes shapes_of(const ReluInputs<float>&);
template ReluShapes shapes_of(const ReluInputs<double>&);

template <class T>
class ReluPathPlan<T>::Impl {
 public:
  Impl(const ReluShapes& shapes, const StepOptions& options, const Context& context)
      : options_(options),
        weights_(matrices("weights", shapes.weights)),
        gradients_(matrices("gradients", shapes.gradients)),
        layers_(sizes_of(weights_)) {
    require_relu_options(options);
    if (!gradients_.empty() && gradients_.size() != weights_.size()) {
      throw wrong_count("gradients", gradients_.size(), weights_.size());
    }
    std::vector<const PlanArray*> operands;
    for (const PlanArray& one : weights_) operands.push_back(&one);
    for (std::size_t l = 0; l < gradients_.size(); ++l) {
      gradients_[l].require_block(weights_[l].block_shape());
      operands.push_back(&gradients_[l]);
    }
    const Shape leading = plan::common_leading(operands);
    element_count(join(leading, {layers_.weights()}));
    for (PlanArray& one : weights_) one.broadcast_to(leading);
    for (PlanArray& one : gradients_) one.broadcast_to(leading);
    problems_.emplace(leading, context, ItemParts{layers_.weights(), layers_.weights()});
  }

  void set_step(Index number, double rate, double gradient_factor) {
    options_ = plan::at_step(options_, number, rate, gradient_factor);
  }

  const Shape& leading() const { return problems_->leading(); }
  Index layers() const { return layers_.count(); }
  Shape weights_shape(Index layer) const {
    if (layer < 1 || layer > layers()) {
      throw Error(Failure::usage, "there is no W_" + std::to_string(layer) + ", expected 1 to " +
                                      std::to_string(layers()));
    }
    return join(leading(), {layers_.size(layer - 1), layers_.size(layer)});
  }
  Shape values_shape() const { return join(leading(), {layers_.rank()}); }
  Shape hidden_shape() const { return join(leading(), {layers_.hidden()}); }
  Shape moments_shape() const { return join(leading(), {moments()}); }

  std::int64_t workspace_bytes() const { return problems_->bytes(bytes()); }

  std::vector<ReluSkeleton> cyclic_skeletons() const {
    return std::vector<ReluSkeleton>(static_cast<std::size_t>(problems_->count()),
                                     cyclic_skeleton(layers_));
  }

  std::vector<ReluSkeleton> largest_skeletons(const ReluInputs<T>& inputs) {
    return problems_->run(bytes(), 0, [&] {
      require_operands("weights", weights_, inputs.weights);
      require_finite("weights", inputs.weights);
      std::vector<ReluSkeleton> skeletons(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index problem, int) {
        skeletons[static_cast<std::size_t>(problem)] =
            largest_skeleton<T>(layers_, blocks(weights_, inputs.weights, problem));
      });
      return skeletons;
    });
  }

  std::vector<Index> path(const ReluSkeleton& skeleton, Index number) const {
    require_skeleton(skeleton, "");
    if (number < 0 || number >= layers_.rank()) {
      throw Error(Failure::usage, "there is no basis path " + std::to_string(number) +
                                      ", expected 0 to " + std::to_string(layers_.rank() - 1));
    }
    std::vector<Index> nodes(static_cast<std::size_t>(layers() + 1));
    ReluBasis(layers_, skeleton).path(number, nodes.data());
    return nodes;
  }

  std::vector<ReluStepSummary> run(const ReluInputs<T>& inputs, const ReluOutputs<T>& outputs) {
    return problems_->run(bytes(), 0, [&] {
      require(inputs, outputs);
      std::vector<ReluStepSummary> summaries(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index problem, int threads) {
        summaries[static_cast<std::size_t>(problem)] = solve(inputs, outputs, problem, threads);
      });
      return summaries;
    });
  }

  void compose(const ReluValues<T>& values, const ReluWeights<T>& weights) {
    return problems_->run(bytes(), 0, [&] {
      plan::require_array("values", values.values, values_shape());
      plan::require_array("in_weights", values.in_weights, hidden_shape());
      require_results("weights", weights);
      require_skeletons(values.skeletons);
      problems_->for_each([&](Index problem, int threads) {
        const ReluBasis basis(layers_, values.skeletons[static_cast<std::size_t>(problem)]);
        const T* const first = values.in_weights.data + problem * layers_.hidden();
        basis_weights<T>(basis, values.values.data + problem * layers_.rank(),
                         std::vector<T>(first, first + layers_.hidden()), of(weights, problem),
                         threads);
      });
    });
  }

 private:
  // Products, rests, ratios and differences by node.
  std::int64_t bytes() const {
    return 8 * layers_.nodes() * static_cast<std::int64_t>(sizeof(double));
  }

  bool in_paths() const { return steps_in_paths(options_.optimizer); }
  Index moments() const { return in_paths() ? layers_.rank() : layers_.weights(); }

  // The matrices of a problem, of inputs and of results.
  static ReluMatrices<const T> blocks(const std::vector<PlanArray>& operands,
                                      const ReluWeights<const T>& given, Index problem) {
    ReluMatrices<const T> made;
    for (std::size_t l = 0; l < operands.size(); ++l) {
      made.push_back(
          {operands[l].block(given[l], problem), operands[l].axis(0), operands[l].axis(1)});
    }
    return made;
  }
  ReluMatrices<T> of(const ReluWeights<T>& weights, Index problem) const {
    ReluMatrices<T> made;
    for (std::size_t l = 0; l < weights.size(); ++l) {
      const Index rows = weights_[l].axis(0);
      const Index cols = weights_[l].axis(1);
      made.push_back({weights[l].data + problem * rows * cols, rows, cols});
    }
    return made;
  }

  ReluStepSummary solve(const ReluInputs<T>& inputs, const ReluOutputs<T>& outputs, Index problem,
                        int threads) const {
    const ReluMatrices<const T> weights = blocks(weights_, inputs.weights, problem);
    static const ReluSkeleton no_skeleton;
    const ReluSkeleton& skeleton = inputs.skeletons.empty()
                                       ? no_skeleton
                                       : inputs.skeletons[static_cast<std::size_t>(problem)];
    if (outputs.values) {
      basis_values<T>(ReluBasis(layers_, skeleton), weights,
                      outputs.values.data + problem * layers_.rank(), threads);
    }
    if (outputs.weights.empty()) return {};
    ReluStepMatrices<T> matrices{of(outputs.weights, problem),
                                 blocks(gradients_, inputs.gradients, problem)};
    for (std::size_t l = 0; l < weights.size(); ++l) {
      const MatrixView<const T>& from = weights[l];
      T* const to = matrices.weights[l].data;
      if (from.data != to) std::copy_n(from.data, from.rows * from.cols, to);
    }
    const auto own = [&](const TensorView<T>& moment) {
      return MatrixView<T>(moment.data + problem * moments(), 1, moments());
    };
    if (keeps_first_moment(options_)) matrices.first_moment = own(outputs.first_moment);
    if (keeps_moments(options_.optimizer)) matrices.second_moment = own(outputs.second_moment);
    return step<T>(options_, layers_, skeleton, matrices, threads);
  }

  void require(const ReluInputs<T>& inputs, const ReluOutputs<T>& outputs) const {
    require_operands("weights", weights_, inputs.weights);
    require_operands("gradients", gradients_, inputs.gradients);
    require_finite("weights", inputs.weights);
    const bool steps = !outputs.weights.empty();
    if (steps) require_step(inputs, outputs);
    plan::require_output("values", outputs.values, values_shape());
    if (!inputs.skeletons.empty() || outputs.values || (steps && in_paths())) {
      require_skeletons(inputs.skeletons);
    }
  }

  void require_step(const ReluInputs<T>& inputs, const ReluOutputs<T>& outputs) const {
    if (gradients_.empty()) throw Error(Failure::usage, "the plan was made without gradients");
    require_finite("gradients", inputs.gradients);
    require_results("weights", outputs.weights);
    for (std::size_t l = 0; l < weights_.size(); ++l) {
      if (outputs.weights[l].data != inputs.weights[l].data) continue;
      plan::require_array(nth("weights", l), inputs.weights[l], outputs.weights[l].shape);
    }
    if (keeps_first_moment(options_)) {
      plan::require_array("the first moment", outputs.first_moment, moments_shape());
    }
    if (keeps_moments(options_.optimizer)) {
      plan::require_array("the second moment", outputs.second_moment, moments_shape());
    }
  }

  static void require_operands(const std::string& name, const std::vector<PlanArray>& operands,
                               const ReluWeights<const T>& given) {
    if (given.size() != operands.size()) throw wrong_count(name, given.size(), operands.size());
    for (std::size_t l = 0; l < given.size(); ++l) operands[l].require(given[l]);
  }

  void require_results(const std::string& name, const ReluWeights<T>& results) const {
    if (results.size() != weights_.size()) {
      throw wrong_count(name, results.size(), weights_.size());
    }
    for (std::size_t l = 0; l < results.size(); ++l) {
      plan::require_array(nth(name, l), results[l], weights_shape(static_cast<Index>(l) + 1));
    }
  }

  static void require_finite(const std::string& name, const ReluWeights<const T>& weights) {
    for (std::size_t l = 0; l < weights.size(); ++l) {
      plan::require_finite(nth(name, l), weights[l]);
    }
  }

  void require_skeleton(const ReluSkeleton& skeleton, const std::string& whose) const {
    const auto hidden = static_cast<std::size_t>(layers_.hidden());
    bool fits = skeleton.in.size() == hidden && skeleton.out.size() == hidden;
    for (Index l = 1; fits && l < layers(); ++l) {
      for (Index b = 0; fits && b < layers_.size(l); ++b) {
        const Index node = layers_.hidden_node(l, b);
        const Index in = skeleton.in_of(node);
        const Index out = skeleton.out_of(node);
        fits = in >= 0 && in < layers_.size(l - 1) && out >= 0 && out < layers_.size(l + 1);
      }
    }
    if (!fits) {
      throw Error(Failure::input, "the skeleton" + whose + " is not of " + std::to_string(hidden) +
                                      " hidden nodes, with nodes of the layers beside them");
    }
  }

  void require_skeletons(const std::vector<ReluSkeleton>& skeletons) const {
    if (static_cast<Index>(skeletons.size()) != problems_->count()) {
      throw Error(Failure::input, std::to_string(skeletons.size()) + " skeletons, expected " +
                                      std::to_string(problems_->count()));
    }
    for (std::size_t n = 0; n < skeletons.size(); ++n) {
      require_skeleton(skeletons[n],
                       " of problem " + index_text(unravel(static_cast<Index>(n), leading())));
    }
  }

  StepOptions options_;
  std::vector<PlanArray> weights_, gradients_;
  ReluLayers layers_;
  std::optional<plan::Problems> problems_;
};

template <class T>
ReluPathPlan<T>::ReluPathPlan(const ReluShapes& shapes, const StepOptions& options,
                              const Context& context)
    : impl_(plan::make<Impl>(shapes, options, context)) {}
template <class T>
ReluPathPlan<T>::~ReluPathPlan() = default;
template <class T>
ReluPathPlan<T>::ReluPathPlan(ReluPathPlan&&) noexcept = default;
template <class T>
ReluPathPlan<T>& ReluPathPlan<T>::operator=(ReluPathPlan&&) noexcept = default;
template <class T>
void ReluPathPlan<T>::set_step(Index number, double rate, double gradient_factor) {
  plan::alive(impl_).set_step(number, rate, gradient_factor);
}
template <class T>
const Shape& ReluPathPlan<T>::leading() const {
  return plan::alive(impl_).leading();
}
template <class T>
Index ReluPathPlan<T>::layers() const {
  return plan::alive(impl_).layers();
}
template <class T>
Shape ReluPathPlan<T>::weights_shape(Index layer) const {
  return plan::alive(impl_).weights_shape(layer);
}
template <class T>
Shape ReluPathPlan<T>::values_shape() const {
  return plan::alive(impl_).values_shape();
}
template <class T>
Shape ReluPathPlan<T>::hidden_shape() const {
  return plan::alive(impl_).hidden_shape();
}
template <class T>
Shape ReluPathPlan<T>::moments_shape() const {
  return plan::alive(impl_).moments_shape();
}
template <class T>
std::int64_t ReluPathPlan<T>::workspace_bytes() const {
  return plan::alive(impl_).workspace_bytes();
}
template <class T>
std::vector<ReluSkeleton> ReluPathPlan<T>::cyclic_skeletons() const {
  return plan::alive(impl_).cyclic_skeletons();
}
template <class T>
std::vector<ReluSkeleton> ReluPathPlan<T>::largest_skeletons(const ReluInputs<T>& inputs) {
  return plan::alive(impl_).largest_skeletons(inputs);
}
template <class T>
std::vector<Index> ReluPathPlan<T>::path(const ReluSkeleton& skeleton, Index number) const {
  return plan::alive(impl_).path(skeleton, number);
}
template <class T>
std::vector<ReluStepSummary> ReluPathPlan<T>::run(const ReluInputs<T>& inputs,
                                                  const ReluOutputs<T>& outputs) {
  return plan::alive(impl_).run(inputs, outputs);
}
template <class T>
void ReluPathPlan<T>::compose(const ReluValues<T>& values, const ReluWeights<T>& weights) {
  plan::alive(impl_).compose(values, weights);
}

template class ReluPathPlan<float>;
template class ReluPathPlan<double>;

}  // namespace attn
