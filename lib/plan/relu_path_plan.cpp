#include <algorithm>
#include <cmath>
#include <string>

#include "attnkit/relu_paths.hpp"
#include "paths/relu_basis.hpp"
#include "paths/relu_step.hpp"
#include "paths/step.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "plan/step_options.hpp"

namespace attn {
namespace {

std::vector<Index> require_sizes(const Shape& leading, const std::vector<Index>& sizes) {
  if (sizes.size() < 2 || std::any_of(sizes.begin(), sizes.end(), [](Index n) { return n < 1; })) {
    throw Error(Failure::input, "the sizes of the layers are " + to_string(sizes) +
                                    ", expected two or more, each at least 1");
  }
  Index weights = 0;
  for (std::size_t l = 1; l < sizes.size(); ++l) {
    const Index more = element_count({sizes[l - 1], sizes[l]});
    if (more > std::numeric_limits<Index>::max() - weights) {
      throw Error(Failure::input, "layers of " + to_string(sizes) + " have too many weights");
    }
    weights += more;
  }
  element_count(join(leading, {weights}));
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
class ReluPathPlan<T>::Impl {
 public:
  Impl(const Shape& leading, const std::vector<Index>& sizes, int threads)
      : layers_(require_sizes(leading, sizes)),
        problems_(leading, threads, {layers_.weights(), layers_.weights()}) {}

  const Shape& leading() const { return problems_.leading(); }
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
  Shape moments_shape(Optimizer optimizer) const {
    return join(leading(), {steps_in_paths(optimizer) ? layers_.rank() : layers_.weights()});
  }

  std::int64_t workspace_bytes() const { return problems_.bytes(bytes()); }

  std::vector<ReluSkeleton> cyclic_skeletons() const {
    return std::vector<ReluSkeleton>(static_cast<std::size_t>(problems_.count()),
                                     cyclic_skeleton(layers_));
  }

  std::vector<ReluSkeleton> largest_skeletons(const ReluWeights<const T>& weights) {
    return problems_.run(bytes(), 0, [&] {
      require_finite("weights", weights);
      std::vector<ReluSkeleton> skeletons(static_cast<std::size_t>(problems_.count()));
      problems_.for_each([&](Index problem, int) {
        skeletons[static_cast<std::size_t>(problem)] =
            largest_skeleton<T>(layers_, of(weights, problem));
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

  void decompose(const ReluWeights<const T>& weights, const std::vector<ReluSkeleton>& skeletons,
                 const TensorView<T>& values) {
    return problems_.run(bytes(), 0, [&] {
      require_finite("weights", weights);
      require_skeletons(skeletons);
      plan::require_array("values", values, values_shape());
      problems_.for_each([&](Index problem, int threads) {
        const ReluBasis basis(layers_, skeletons[static_cast<std::size_t>(problem)]);
        basis_values<T>(basis, of(weights, problem), values.data + problem * layers_.rank(),
                        threads);
      });
    });
  }

  void compose(const TensorView<const T>& values, const TensorView<const T>& in_weights,
               const std::vector<ReluSkeleton>& skeletons, const ReluWeights<T>& weights) {
    return problems_.run(bytes(), 0, [&] {
      plan::require_array("values", values, values_shape());
      plan::require_array("in_weights", in_weights, hidden_shape());
      require_shapes("weights", weights);
      require_skeletons(skeletons);
      problems_.for_each([&](Index problem, int threads) {
        const ReluBasis basis(layers_, skeletons[static_cast<std::size_t>(problem)]);
        const T* const first = in_weights.data + problem * layers_.hidden();
        basis_weights<T>(basis, values.data + problem * layers_.rank(),
                         std::vector<T>(first, first + layers_.hidden()), of(weights, problem),
                         threads);
      });
    });
  }

  std::vector<ReluStepSummary> step(const StepOptions& options,
                                    const std::vector<ReluSkeleton>& skeletons,
                                    const ReluWeights<const T>& gradients,
                                    const ReluWeights<T>& weights, const PathMoments<T>& moments) {
    return problems_.run(bytes(), 0, [&] {
      require_relu_options(options);
      require_finite("weights", ReluWeights<const T>(weights.begin(), weights.end()));
      require_finite("gradients", gradients);
      const bool in_paths = steps_in_paths(options.optimizer);
      if (in_paths) require_skeletons(skeletons);
      const Shape of_moments = moments_shape(options.optimizer);
      const bool keeps_first = keeps_first_moment(options);
      const bool keeps_second = keeps_moments(options.optimizer);
      if (keeps_first) plan::require_array("the first moment", moments.first, of_moments);
      if (keeps_second) plan::require_array("the second moment", moments.second, of_moments);
      std::vector<ReluStepSummary> summaries(static_cast<std::size_t>(problems_.count()));
      problems_.for_each([&](Index problem, int threads) {
        const auto at = static_cast<std::size_t>(problem);
        ReluStepMatrices<T> matrices{of(weights, problem), of(gradients, problem)};
        const Index numbers = of_moments.back();
        const auto own = [&](const TensorView<T>& moment) {
          return MatrixView<T>(moment.data + problem * numbers, 1, numbers);
        };
        if (keeps_first) matrices.first_moment = own(moments.first);
        if (keeps_second) matrices.second_moment = own(moments.second);
        if (in_paths) {
          const ReluBasis basis(layers_, skeletons[at]);
          summaries[at] = attn::step<T>(options, basis, matrices, threads);
        } else {
          step_on_weights<T>(options, matrices, threads);
        }
      });
      return summaries;
    });
  }

 private:
  // Products, rests, ratios and differences by node.
  std::int64_t bytes() const {
    return 8 * layers_.nodes() * static_cast<std::int64_t>(sizeof(double));
  }

  template <class U>
  ReluMatrices<U> of(const ReluWeights<U>& weights, Index problem) const {
    ReluMatrices<U> matrices;
    for (Index l = 1; l <= layers(); ++l) {
      const Index rows = layers_.size(l - 1);
      const Index cols = layers_.size(l);
      U* const first = weights[static_cast<std::size_t>(l - 1)].data + problem * rows * cols;
      matrices.push_back({first, rows, cols});
    }
    return matrices;
  }

  template <class U>
  void require_shapes(const std::string& name, const ReluWeights<U>& weights) const {
    if (static_cast<Index>(weights.size()) != layers()) {
      throw Error(Failure::input, std::to_string(weights.size()) + " matrices of " + name +
                                      ", expected " + std::to_string(layers()));
    }
    for (Index l = 1; l <= layers(); ++l) {
      plan::require_array(name + " " + std::to_string(l), weights[static_cast<std::size_t>(l - 1)],
                          weights_shape(l));
    }
  }

  void require_finite(const std::string& name, const ReluWeights<const T>& weights) const {
    require_shapes(name, weights);
    for (std::size_t l = 0; l < weights.size(); ++l) {
      plan::require_finite(name + " " + std::to_string(l + 1), weights[l]);
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
    if (static_cast<Index>(skeletons.size()) != problems_.count()) {
      throw Error(Failure::input, std::to_string(skeletons.size()) + " skeletons, expected " +
                                      std::to_string(problems_.count()));
    }
    for (std::size_t n = 0; n < skeletons.size(); ++n) {
      require_skeleton(skeletons[n],
                       " of problem " + index_text(unravel(static_cast<Index>(n), leading())));
    }
  }

  ReluLayers layers_;
  plan::Problems problems_;
};

template <class T>
ReluPathPlan<T>::ReluPathPlan(const Shape& leading, const std::vector<Index>& sizes, int threads)
    : impl_(plan::make<Impl>(leading, sizes, threads)) {}
template <class T>
ReluPathPlan<T>::~ReluPathPlan() = default;
template <class T>
ReluPathPlan<T>::ReluPathPlan(ReluPathPlan&&) noexcept = default;
template <class T>
ReluPathPlan<T>& ReluPathPlan<T>::operator=(ReluPathPlan&&) noexcept = default;
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
Shape ReluPathPlan<T>::moments_shape(Optimizer optimizer) const {
  return plan::alive(impl_).moments_shape(optimizer);
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
std::vector<ReluSkeleton> ReluPathPlan<T>::largest_skeletons(const ReluWeights<const T>& weights) {
  return plan::alive(impl_).largest_skeletons(weights);
}
template <class T>
std::vector<Index> ReluPathPlan<T>::path(const ReluSkeleton& skeleton, Index number) const {
  return plan::alive(impl_).path(skeleton, number);
}
template <class T>
void ReluPathPlan<T>::decompose(const ReluWeights<const T>& weights,
                                const std::vector<ReluSkeleton>& skeletons, TensorView<T> values) {
  plan::alive(impl_).decompose(weights, skeletons, values);
}
template <class T>
void ReluPathPlan<T>::compose(TensorView<const T> values, TensorView<const T> in_weights,
                              const std::vector<ReluSkeleton>& skeletons,
                              const ReluWeights<T>& weights) {
  plan::alive(impl_).compose(values, in_weights, skeletons, weights);
}
template <class T>
std::vector<ReluStepSummary> ReluPathPlan<T>::step(const StepOptions& options,
                                                   const std::vector<ReluSkeleton>& skeletons,
                                                   const ReluWeights<const T>& gradients,
                                                   const ReluWeights<T>& weights,
                                                   const PathMoments<T>& moments) {
  return plan::alive(impl_).step(options, skeletons, gradients, weights, moments);
}

template class ReluPathPlan<float>;
template class ReluPathPlan<double>;

}  // namespace attn
