#include <array>
#include <cmath>
#include <utility>

#include "attnkit/collapse.hpp"
#include "collapse/self_attention.hpp"
#include "pass/partition.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"

namespace attn::collapse {

using plan::PlanArray;

namespace {

EnergyKind energy_of(const std::string& name) {
  constexpr std::array<std::pair<const char*, EnergyKind>, 3> kinds = {
      {{"dot", EnergyKind::dot},
       {"scaled-dot", EnergyKind::scaled_dot},
       {"gaussian", EnergyKind::gaussian}}};
  for (const auto& kind : kinds) {
    if (name == kind.first) return kind.second;
  }
  throw Error(Failure::usage,
              "the energy is \"" + name + "\", expected dot, scaled-dot or gaussian");
}

SelfAttention taken(const SelfAttentionOptions& options) {
  SelfAttention made;
  made.scheme.stopping = options.stopping;
  made.scheme.scheme = options.scheme;
  made.scheme.hybrid = options.hybrid;
  made.energy = energy_of(options.energy);
  made.scale = options.scale;
  made.residual = options.residual;
  const auto require = [](bool right, const std::string& name, const std::string& expected) {
    if (!right) throw Error(Failure::usage, name + " is out of range, expected " + expected);
  };
  const Stopping& stopping = options.stopping;
  require(options.hybrid >= 0 && options.hybrid <= 1, "hybrid", "a number in [0, 1]");
  require(std::isfinite(options.scale), "scale", "a finite number");
  const auto goes_with = [](bool right, const std::string& name, const std::string& scheme) {
    if (!right) throw Error(Failure::usage, name + " goes with the scheme " + scheme);
  };
  goes_with(options.scheme == Scheme::hnas || options.hybrid == SelfAttentionOptions().hybrid,
            "hybrid", "hnas");
  if (options.scheme == Scheme::transport) {
    throw Error(Failure::usage, "the scheme transport needs costs, which points do not give");
  }
  const bool sinkhorn = options.scheme == Scheme::sinkhorn;
  goes_with(sinkhorn || !stopping.iterations, "a number of iterations", "sinkhorn");
  goes_with(sinkhorn || !stopping.tolerance, "a tolerance", "sinkhorn");
  require(!stopping.iterations || *stopping.iterations >= 1, "iterations", "at least 1");
  require(!stopping.tolerance || (*stopping.tolerance > 0 && std::isfinite(*stopping.tolerance)),
          "tolerance", "a finite number > 0");
  return made;
}

}  // namespace

template <class T>
class SelfAttentionPlan<T>::Impl {
 public:
  Impl(const Shape& points, const SelfAttentionOptions& options, const Context& context)
      : options_(taken(options)),
        points_("points", points, 2),
        shape_(points),
        problems_(
            points_.leading(), context,
            attend_parts(options.scheme, false, points_.axis(0), points_.axis(0), sizeof(T))) {}

  const Shape& leading() const { return points_.leading(); }

  std::int64_t workspace_bytes() const { return problems_.bytes(bytes()); }

  std::vector<SelfAttentionStep> step(const TensorView<const T>& points,
                                      const TensorView<T>& next) {
    return problems_.run(bytes(), 0, [&] {
      plan::require_array("points", points, shape_);
      plan::require_output("next", next, shape_);
      plan::require_finite("points", points);
      const Index rows = points_.axis(0);
      const Index cols = points_.axis(1);
      std::vector<SelfAttentionStep> steps(static_cast<std::size_t>(problems_.count()));
      problems_.for_each([&](Index problem, int threads) {
        const Index first = problem * rows * cols;
        const SelfAttentionOutcome found = attend_to_each_other<T>(
            {points.data + first, rows, cols}, options_,
            {plan::output_block(next, problem, rows * cols), rows, cols}, threads);
        steps[static_cast<std::size_t>(problem)] = {
            found.summary.status, found.summary.iterations, found.summary.column_error,
            found.summary.convergence,
            found.log_likelihood.value_or(std::numeric_limits<double>::quiet_NaN())};
      });
      return steps;
    });
  }

 private:
  // Bytes that one problem allocates.
  std::int64_t bytes() const {
    return self_attention_bytes(options_, points_.axis(0), points_.axis(1), sizeof(T),
                                problems_.inside());
  }

  SelfAttention options_;
  PlanArray points_;
  Shape shape_;
  plan::Problems problems_;
};

template <class T>
SelfAttentionPlan<T>::SelfAttentionPlan(const Shape& points, const SelfAttentionOptions& options,
                                        const Context& context)
    : impl_(plan::make<Impl>(points, options, context)) {}
template <class T>
SelfAttentionPlan<T>::~SelfAttentionPlan() = default;
template <class T>
SelfAttentionPlan<T>::SelfAttentionPlan(SelfAttentionPlan&&) noexcept = default;
template <class T>
SelfAttentionPlan<T>& SelfAttentionPlan<T>::operator=(SelfAttentionPlan&&) noexcept = default;
template <class T>
const Shape& SelfAttentionPlan<T>::leading() const {
  return plan::alive(impl_).leading();
}
template <class T>
std::int64_t SelfAttentionPlan<T>::workspace_bytes() const {
  return plan::alive(impl_).workspace_bytes();
}
template <class T>
std::vector<SelfAttentionStep> SelfAttentionPlan<T>::step(TensorView<const T> points,
                                                          TensorView<T> next) {
  return plan::alive(impl_).step(points, next);
}

template class SelfAttentionPlan<float>;
template class SelfAttentionPlan<double>;

}  // namespace attn::collapse
