#include <algorithm>
#include <cmath>

#include "attnkit/collapse.hpp"
#include "collapse/expectation_maximisation.hpp"
#include "pass/partition.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"

namespace attn::collapse {

using plan::PlanArray;

class MixturePlan::Impl {
 public:
  Impl(const Shape& points, const Shape& centres, const EmOptions& options, const Context& context)
      : options_(options),
        points_("points", points, 2),
        centres_("centres", centres, 2),
        centre_shape_(centres),
        problems_(centres_.leading(), context,
                  parts_of_problem(
                      options.priors == Priors::dnas ? Order::column_panels : Order::row_panels,
                      false, components(), points_.axis(0), sizeof(double))) {
    points_.require_block({points_.axis(0), centres_.axis(1)});
    points_.broadcast_to(leading());
    if (points_.axis(0) < 1 || components() < 1) {
      throw Error(Failure::input, "points are " + to_string(points) + " and centres " +
                                      to_string(centres) + ", expected at least one of each");
    }
    // NaN fails the comparison.
    if (!(options.min_variance > 0 && std::isfinite(options.min_variance))) {
      throw Error(Failure::usage, "min_variance is " + std::to_string(options.min_variance) +
                                      ", expected a finite number > 0");
    }
    if (!options.estimates_variance && options.min_variance != EmOptions().min_variance) {
      throw Error(Failure::usage, "min_variance goes with estimates_variance");
    }
  }

  const Shape& leading() const { return centres_.leading(); }
  Shape log_prior_shape() const { return join(leading(), {components()}); }

  std::int64_t workspace_bytes() const { return problems_.bytes(bytes()); }

  std::vector<EmStep> step(const TensorView<const double>& points,
                           const MixtureViews<const double>& from, const MixtureViews<double>& to) {
    return problems_.run(bytes(), 0, [&] {
      require(points, from);
      require_shapes(to);
      if (to.variance.shape != from.variance.shape) {
        throw Error(Failure::input, "variance is " + to_string(to.variance.shape) +
                                        " after the step, " + to_string(from.variance.shape) +
                                        " before it");
      }
      if (options_.priors == Priors::dnas) require_one_variance(from);
      if (options_.estimates_variance) {
        plan::require_numbers("variance", from.variance.data, from.variance.shape,
                              "numbers >= min_variance",
                              [&](double value) { return value >= options_.min_variance; });
      }
      std::vector<EmStep> steps(problems());
      problems_.for_each([&](Index problem, int threads) {
        const Mixture now = mixture_of(from, problem);
        Mixture next = mixture_of(from, problem);
        steps[static_cast<std::size_t>(problem)] =
            em_step(points_of(points, problem), now, options_, next, threads);
        write(next, to, problem);
      });
      return steps;
    });
  }

  std::vector<double> log_likelihood(const TensorView<const double>& points,
                                     const MixtureViews<const double>& mixture) {
    return problems_.run(bytes(), 0, [&] {
      require(points, mixture);
      std::vector<double> found(problems());
      problems_.for_each([&](Index problem, int threads) {
        found[static_cast<std::size_t>(problem)] = collapse::log_likelihood(
            points_of(points, problem), mixture_of(mixture, problem), threads);
      });
      return found;
    });
  }

  std::vector<double> dnas_centres(const TensorView<const double>& points,
                                   const MixtureViews<const double>& mixture,
                                   const TensorView<double>& centres) {
    return problems_.run(bytes(), 0, [&] {
      require(points, mixture);
      require_one_variance(mixture);
      plan::require_array("centres", centres, centre_shape_);
      std::vector<double> errors(problems());
      problems_.for_each([&](Index problem, int threads) {
        const MatrixView<double> to(centres.data + problem * components() * dimension(),
                                    components(), dimension());
        errors[static_cast<std::size_t>(problem)] = collapse::dnas_centres(
            points_of(points, problem), mixture_of(mixture, problem), to, threads);
      });
      return errors;
    });
  }

  void set_dnas_priors(const MixtureViews<double>& mixture) {
    return problems_.run(bytes(), 0, [&] {
      require_shapes(mixture);
      require_numbers(mixture, false);
      require_one_variance(mixture);
      problems_.for_each([&](Index problem, int) {
        Mixture made = mixture_of(mixture, problem);
        collapse::set_dnas_priors(made);
        write(made, mixture, problem);
      });
    });
  }

 private:
  Index components() const { return centres_.axis(0); }
  Index dimension() const { return centres_.axis(1); }
  std::size_t problems() const { return static_cast<std::size_t>(problems_.count()); }

  // Bytes that one problem allocates: a step, and two mixtures.
  std::int64_t bytes() const {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    return em_step_bytes(components(), points_.axis(0), dimension(), problems_.inside()) +
           2 * components() * (dimension() + 2) * number;
  }

  template <class T>
  void require_shapes(const MixtureViews<T>& mixture) const {
    plan::require_array("centre", mixture.centre, centre_shape_);
    plan::require_array("log_prior", mixture.log_prior, log_prior_shape());
    plan::require_array("variance", mixture.variance,
                        has_own_variances(mixture) ? log_prior_shape() : leading());
  }

  template <class T>
  bool has_own_variances(const MixtureViews<T>& mixture) const {
    return mixture.variance.shape.size() > leading().size();
  }

  void require_one_variance(const MixtureViews<const double>& mixture) const {
    if (!has_own_variances(mixture)) return;
    throw Error(Failure::usage, "the priors of dnas require one variance for all components");
  }

  void require_numbers(const MixtureViews<const double>& mixture, bool priors) const {
    plan::require_finite("centre", mixture.centre);
    if (priors) plan::require_finite("log_prior", mixture.log_prior);
    plan::require_numbers("variance", mixture.variance.data, mixture.variance.shape,
                          "finite numbers > 0",
                          [](double value) { return value > 0 && std::isfinite(value); });
  }

  void require(const TensorView<const double>& points,
               const MixtureViews<const double>& mixture) const {
    points_.require(points);
    plan::require_finite("points", points);
    require_shapes(mixture);
    require_numbers(mixture, true);
  }

  MatrixView<const double> points_of(const TensorView<const double>& points, Index problem) const {
    return {points_.block(points, problem), points_.axis(0), dimension()};
  }

  Mixture mixture_of(const MixtureViews<const double>& all, Index problem) const {
    const Index numbers = components() * dimension();
    Mixture made(components(), dimension());
    std::copy_n(all.centre.data + problem * numbers, numbers, made.centre.data());
    std::copy_n(all.log_prior.data + problem * components(), components(), made.log_prior.begin());
    const Index variances = has_own_variances(all) ? components() : 1;
    made.variance.resize(static_cast<std::size_t>(variances));
    std::copy_n(all.variance.data + problem * variances, variances, made.variance.begin());
    return made;
  }

  void write(const Mixture& made, const MixtureViews<double>& all, Index problem) const {
    std::copy(made.centre.begin(), made.centre.end(),
              all.centre.data + problem * made.centre.size());
    std::copy(made.log_prior.begin(), made.log_prior.end(),
              all.log_prior.data + problem * components());
    std::copy(made.variance.begin(), made.variance.end(),
              all.variance.data + problem * static_cast<Index>(made.variance.size()));
  }

  EmOptions options_;
  PlanArray points_, centres_;
  Shape centre_shape_;
  plan::Problems problems_;
};

MixturePlan::MixturePlan(const Shape& points, const Shape& centres, const EmOptions& options,
                         const Context& context)
    : impl_(plan::make<Impl>(points, centres, options, context)) {}
MixturePlan::~MixturePlan() = default;
MixturePlan::MixturePlan(MixturePlan&&) noexcept = default;
MixturePlan& MixturePlan::operator=(MixturePlan&&) noexcept = default;
const Shape& MixturePlan::leading() const { return plan::alive(impl_).leading(); }
Shape MixturePlan::log_prior_shape() const { return plan::alive(impl_).log_prior_shape(); }
std::int64_t MixturePlan::workspace_bytes() const { return plan::alive(impl_).workspace_bytes(); }
std::vector<EmStep> MixturePlan::step(const TensorView<const double>& points,
                                      const MixtureViews<const double>& from,
                                      const MixtureViews<double>& to) {
  return plan::alive(impl_).step(points, from, to);
}
std::vector<double> MixturePlan::log_likelihood(const TensorView<const double>& points,
                                                const MixtureViews<const double>& mixture) {
  return plan::alive(impl_).log_likelihood(points, mixture);
}
std::vector<double> MixturePlan::dnas_centres(const TensorView<const double>& points,
                                              const MixtureViews<const double>& mixture,
                                              const TensorView<double>& centres) {
  return plan::alive(impl_).dnas_centres(points, mixture, centres);
}

void MixturePlan::set_dnas_priors(const MixtureViews<double>& mixture) {
  plan::alive(impl_).set_dnas_priors(mixture);
}

}  // namespace attn::collapse
