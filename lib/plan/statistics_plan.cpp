#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "attnkit/statistics.hpp"
#include "plan/operand.hpp"
#include "plan/problems.hpp"
#include "stats/summary.hpp"

namespace attn {

using plan::Operand;

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
  if (options.element_size != sizeof(float) && options.element_size != sizeof(double)) {
    refuse("element_size is " + std::to_string(options.element_size) + ", expected 4 or 8");
  }
}

}  // namespace

StatisticsShapes shapes_of(const StatisticsInputs& inputs) {
  StatisticsShapes shapes{plan::shape_of(inputs.column_sums), plan::shape_of(inputs.masked), {}};
  if (inputs.most_keys) shapes.most_keys = inputs.most_keys.shape;
  return shapes;
}

class StatisticsPlan::Impl {
 public:
  Impl(const StatisticsShapes& shapes, const StatisticsOptions& options, int threads)
      : options_(options),
        threads_(plan::require_threads(threads)),
        column_sums_("column_sums", shapes.column_sums, 1),
        masked_("masked", shapes.masked, 1),
        most_keys_("most_keys", shapes.most_keys, 0) {
    require_options(options);
    if (!column_sums_.present()) throw Error(Failure::input, "expected column_sums");
    keys_ = column_sums_.axis(0);
    leading_ = column_sums_.leading();
    masked_.require_block({keys_});
    for (Operand* operand : {&column_sums_, &masked_, &most_keys_}) {
      operand->broadcast_to(leading_);
    }
  }

  const Shape& leading() const { return leading_; }

  // Copies of the pooled sums, and of one head for each running thread.
  std::int64_t workspace_bytes() const {
    const Index heads = element_count(leading_);
    const Index at_once = plan::ThreadShares(heads, threads_).at_once;
    constexpr auto number = static_cast<std::int64_t>(sizeof(double));
    return (heads + at_once) * keys_ * (number + 1);
  }

  Statistics run(const StatisticsInputs& inputs) {
    require(inputs);
    const Index heads = element_count(leading_);
    Statistics found;
    found.heads.resize(static_cast<std::size_t>(heads));
    std::vector<std::uint8_t> masked = gather_masks(inputs);
    const std::span<const double> all(inputs.column_sums.data,
                                      static_cast<std::size_t>(heads * keys_));
    const std::vector<double> edges = histogram_edges({&all, 1}, options_.summary.bins);
    plan::for_each_problem(leading_, threads_, [&](Index head, int) {
      const auto first = static_cast<std::size_t>(head * keys_);
      const auto count = static_cast<std::size_t>(keys_);
      const auto mask = std::span<const std::uint8_t>(masked).subspan(
          masked_.present() ? first : 0, masked_.present() ? count : 0);
      HeadStatistics& of_head = found.heads[static_cast<std::size_t>(head)];
      of_head = of_keys(all.subspan(first, count), mask, edges);
      add_bound(inputs, head, all.subspan(first, count), mask, of_head);
    });
    found.all = of_keys(all, masked, edges);
    for (const HeadStatistics& head : found.heads) {
      if (!head.margin) continue;
      found.all.bound = std::min(found.all.bound.value_or(*head.bound), *head.bound);
      found.all.margin = std::min(found.all.margin.value_or(*head.margin), *head.margin);
      found.all.holds = found.all.holds && head.holds;
    }
    return found;
  }

 private:
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
  std::vector<std::uint8_t> gather_masks(const StatisticsInputs& inputs) const {
    std::vector<std::uint8_t> masks;
    if (!masked_.present()) return masks;
    const Index heads = element_count(leading_);
    masks.reserve(static_cast<std::size_t>(heads * keys_));
    for (Index head = 0; head < heads; ++head) {
      const std::uint8_t* const mask = masked_.block(inputs.masked, head);
      masks.insert(masks.end(), mask, mask + keys_);
    }
    return masks;
  }

  HeadStatistics of_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                         const std::vector<double>& edges) const {
    HeadStatistics found;
    found.sums = summarise({sums.begin(), sums.end()}, masked, options_.summary);
    found.histogram = histogram(sums, masked, edges);
    return found;
  }

  void add_bound(const StatisticsInputs& inputs, Index head, std::span<const double> sums,
                 std::span<const std::uint8_t> masked, HeadStatistics& found) const {
    if (!options_.scheme) return;
    const Index most =
        most_keys_.present() ? *most_keys_.block(inputs.most_keys, head) : found.sums.keys;
    const std::optional<double> bound = column_sum_bound(*options_.scheme, options_.hybrid, most);
    if (!bound) return;
    found.margin = column_sum_margin(sums, masked, *bound);
    if (!found.margin) return;
    found.bound = bound;
    found.holds = *found.margin >= 1 - bound_slack(options_.element_size);
  }

  StatisticsOptions options_;
  int threads_;
  Operand column_sums_, masked_, most_keys_;
  Index keys_ = 0;  // n
  Shape leading_;
};

StatisticsPlan::StatisticsPlan(const StatisticsShapes& shapes, const StatisticsOptions& options,
                               int threads)
    : impl_(std::make_unique<Impl>(shapes, options, threads)) {}
StatisticsPlan::~StatisticsPlan() = default;
StatisticsPlan::StatisticsPlan(StatisticsPlan&&) noexcept = default;
StatisticsPlan& StatisticsPlan::operator=(StatisticsPlan&&) noexcept = default;
const Shape& StatisticsPlan::leading() const { return impl_->leading(); }
std::int64_t StatisticsPlan::workspace_bytes() const { return impl_->workspace_bytes(); }
Statistics StatisticsPlan::run(const StatisticsInputs& inputs) { return impl_->run(inputs); }

}  // namespace attn
