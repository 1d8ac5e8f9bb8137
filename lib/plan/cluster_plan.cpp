#include <cmath>
#include <span>

#include "attnkit/collapse.hpp"
#include "collapse/cluster_statistics.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::collapse {

using plan::PlanArray;

template <class T>
class ClusterPlan<T>::Impl {
 public:
  Impl(const Shape& points, const Shape& labels, Index clusters, double width,
       const Context& context)
      : points_("points", points, 2),
        labels_("labels", labels, 1),
        problems_(points_.leading(), context, ItemParts{}),
        clusters_(clusters),
        width_(width) {
    labels_.require_block({points_.axis(0)});
    labels_.broadcast_to(leading());
    points_.broadcast_to(leading());
    if (clusters < 1) {
      throw Error(Failure::usage,
                  "clusters is " + std::to_string(clusters) + ", expected at least 1");
    }
    // NaN fails the comparison.
    if (!(width > 0 && std::isfinite(width))) {
      throw Error(Failure::usage,
                  "width is " + std::to_string(width) + ", expected a finite number > 0");
    }
  }

  const Shape& leading() const { return points_.leading(); }

  std::int64_t workspace_bytes() const { return problems_.bytes(bytes()); }

  std::vector<ClusterStatistics> run(const TensorView<const T>& points,
                                     const TensorView<const Index>& labels) {
    return problems_.run(bytes(), 0, [&] {
      points_.require(points);
      labels_.require(labels);
      plan::require_finite("points", points);
      plan::require_numbers("labels", labels.data, labels.shape,
                            "numbers from 0 to " + std::to_string(clusters_ - 1),
                            [&](Index label) { return label >= 0 && label < clusters_; });
      std::vector<ClusterStatistics> found(static_cast<std::size_t>(problems_.count()));
      problems_.for_each([&](Index problem, int) {
        const std::span<const Index> of_points(labels_.block(labels, problem),
                                               static_cast<std::size_t>(points_.axis(0)));
        require_members(of_points);
        found[static_cast<std::size_t>(problem)] = cluster_statistics<T>(
            {points_.block(points, problem), points_.axis(0), points_.axis(1)}, of_points,
            clusters_, width_);
      });
      return found;
    });
  }

 private:
  // For each cluster its sums, its count and its squared distances.
  std::int64_t bytes() const {
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    return clusters_ * (points_.axis(1) + 4) * number;
  }

  void require_members(std::span<const Index> labels) const {
    PooledVector<bool> has(static_cast<std::size_t>(clusters_), false);
    for (const Index label : labels) has[static_cast<std::size_t>(label)] = true;
    for (std::size_t n = 0; n < has.size(); ++n) {
      if (!has[n]) throw Error(Failure::input, "cluster " + std::to_string(n) + " has no points");
    }
  }

  PlanArray points_, labels_;
  plan::Problems problems_;
  Index clusters_;
  double width_;
};

template <class T>
ClusterPlan<T>::ClusterPlan(const Shape& points, const Shape& labels, Index clusters, double width,
                            const Context& context)
    : impl_(plan::make<Impl>(points, labels, clusters, width, context)) {}
template <class T>
ClusterPlan<T>::~ClusterPlan() = default;
template <class T>
ClusterPlan<T>::ClusterPlan(ClusterPlan&&) noexcept = default;
template <class T>
ClusterPlan<T>& ClusterPlan<T>::operator=(ClusterPlan&&) noexcept = default;
template <class T>
const Shape& ClusterPlan<T>::leading() const {
  return plan::alive(impl_).leading();
}
template <class T>
std::int64_t ClusterPlan<T>::workspace_bytes() const {
  return plan::alive(impl_).workspace_bytes();
}
template <class T>
std::vector<ClusterStatistics> ClusterPlan<T>::run(TensorView<const T> points,
                                                   TensorView<const Index> labels) {
  return plan::alive(impl_).run(points, labels);
}

template class ClusterPlan<float>;
template class ClusterPlan<double>;

}  // namespace attn::collapse
