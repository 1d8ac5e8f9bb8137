#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "attnkit/statistics.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "stats/summary.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

using plan::PlanArray;

namespace {

void require_options(const StatisticsOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(Failure::usage, message); };
  const SummaryOptions& summary = options.summary;
  for (const double epsilon : summary.epsilons) {
    if (!(epsilon >= 0)) refuse("epsilon is " + std::to_string(epsilon) + ", expected >= 0");
  }
  for (const double p : summary.probabilities) {
    if (!(p >= 0 && p <= 1)) refuse("probability is " + std::to_string(p) + ", expected 0 to 1");
  }
  if (summary.top < 0) refuse("top is " + std::to_string(summary.top) + ", expected >= 0");
  if (summary.bins && *summary.bins < 1) {
    refuse("bins is " + std::to_string(*summary.bins) + ", expected >= 1");
  }
  if (!(options.hybrid >= 0 && options.hybrid <= 1)) {
    refuse("hybrid is " + std::to_string(options.hybrid) + ", expected 0 to 1");
  }
  if (options.scheme != Scheme::hnas && options.hybrid != StatisticsOptions().hybrid) {
    refuse("hybrid goes with the scheme hnas");
  }
  if (options.element_size != sizeof(float) && options.element_size != sizeof(double)) {
    refuse("element_size is " + std::to_string(options.element_size) + ", expected 4 or 8");
  }
}

}  // namespace

StatisticsShapes shapes_of(const StatisticsInputs& inputs) {
  return {plan::shape_of(inputs.column_sums), plan::shape_of(inputs.masked),
          plan::shape_of(inputs.most_keys)};
}

class StatisticsPlan::Impl {
 public:
  Impl(const StatisticsShapes& shapes, const StatisticsOptions& options, const Context& context)
      : options_(options),
        column_sums_("column_sums", shapes.column_sums, 1),
        masked_("masked", shapes.masked, 1),
        most_keys_("most_keys", shapes.most_keys, 0) {
    require_options(options);
    if (!column_sums_.present()) throw Error(Failure::input, "expected column_sums");
    keys_ = column_sums_.axis(0);
    problems_.emplace(column_sums_.leading(), context, ItemParts{});
    masked_.require_block({keys_});
    for (PlanArray* operand : {&column_sums_, &masked_, &most_keys_}) {
      operand->broadcast_to(leading());
    }
  }

  const Shape& leading() const { return problems_->leading(); }

  std::int64_t workspace_bytes() const { return problems_->bytes(head_bytes(), all_bytes()); }

  Statistics run(const StatisticsInputs& inputs) {
    return problems_->run(head_bytes(), all_bytes(), [&] {
      require(inputs);
      Statistics found;
      found.heads.resize(static_cast<std::size_t>(problems_->count()));
      const PooledVector<std::uint8_t> masked = gather_masks(inputs);
      const std::span<const double> all(inputs.column_sums.data,
                                        static_cast<std::size_t>(problems_->count() * keys_));
      const std::vector<double> edges = histogram_edges({&all, 1}, options_.summary.bins);
      PooledVector<std::optional<double>> bounds(static_cast<std::size_t>(problems_->count()));
      problems_->for_each([&](Index head, int) {
        const auto at = static_cast<std::size_t>(head);
        const auto count = static_cast<std::size_t>(keys_);
        auto mask = std::span<const std::uint8_t>(masked);
        if (masked_.present()) mask = mask.subspan(at * count, count);
        bounds[at] = bound_of(inputs, head, mask);
        found.heads[at] = of_keys(all.subspan(at * count, count), mask, {&bounds[at], 1}, edges);
      });
      found.all = of_keys(all, masked, bounds, edges);
      return found;
    });
  }

 private:
  // Copies of a head's sums, and of the sums of all heads with their masks; and the bounds.
  std::int64_t head_bytes() const { return keys_ * static_cast<Index>(sizeof(double)); }
  std::int64_t all_bytes() const {
    return problems_->count() * (keys_ * static_cast<Index>(sizeof(double) + 1) +
                                 static_cast<Index>(sizeof(std::optional<double>)));
  }

  void require(const StatisticsInputs& inputs) const {
    column_sums_.require(inputs.column_sums);
    masked_.require(inputs.masked);
    if (most_keys_.present() || inputs.most_keys || !inputs.most_keys.shape.empty()) {
      require_most_keys(inputs.most_keys);
    }
    plan::require_numbers("column_sums", inputs.column_sums.data, inputs.column_sums.shape,
                          "finite numbers >= 0",
                          [](double sum) { return sum >= 0 && std::isfinite(sum); });
  }

  void require_most_keys(const TensorView<const Index>& given) const {
    most_keys_.require(given);
    plan::require_numbers("most_keys", given.data, given.shape, "numbers >= 0",
                          [](Index count) { return count >= 0; });
  }

  // By head; empty if no key is masked.
  PooledVector<std::uint8_t> gather_masks(const StatisticsInputs& inputs) const {
    PooledVector<std::uint8_t> masks;
    if (!masked_.present()) return masks;
    const Index heads = problems_->count();
    masks.reserve(static_cast<std::size_t>(heads * keys_));
    for (Index head = 0; head < heads; ++head) {
      const std::uint8_t* const mask = masked_.block(inputs.masked, head);
      masks.insert(masks.end(), mask, mask + keys_);
    }
    return masks;
  }

  HeadStatistics of_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                         std::span<const std::optional<double>> bounds,
                         const std::vector<double>& edges) const {
    PooledVector<double> own(sums.begin(), sums.end());
    return statistics_of_heads(own, masked, bounds, bound_slack(options_.element_size), edges,
                               options_.summary);
  }

  std::optional<double> bound_of(const StatisticsInputs& inputs, Index head,
                                 std::span<const std::uint8_t> masked) const {
    if (!options_.scheme) return std::nullopt;
    const Index most = most_keys_.present()
                           ? *most_keys_.block(inputs.most_keys, head)
                           : keys_ - std::count_if(masked.begin(), masked.end(),
                                                   [](std::uint8_t mask) { return mask != 0; });
    return column_sum_bound(*options_.scheme, options_.hybrid, most);
  }

  StatisticsOptions options_;
  PlanArray column_sums_, masked_, most_keys_;
  Index keys_ = 0;  // n
  std::optional<plan::Problems> problems_;
};

StatisticsPlan::StatisticsPlan(const StatisticsShapes& shapes, const StatisticsOptions& options,
                               const Context& context)
    : impl_(plan::make<Impl>(shapes, options, context)) {}
StatisticsPlan::~StatisticsPlan() = default;
StatisticsPlan::StatisticsPlan(StatisticsPlan&&) noexcept = default;
StatisticsPlan& StatisticsPlan::operator=(StatisticsPlan&&) noexcept = default;
const Shape& StatisticsPlan::leading() const { return plan::alive(impl_).leading(); }
std::int64_t StatisticsPlan::workspace_bytes() const {
  return plan::alive(impl_).workspace_bytes();
}
Statistics StatisticsPlan::run(const StatisticsInputs& inputs) {
  return plan::alive(impl_).run(inputs);
}

}  // namespace attn
