#include "common/outputs/head_outputs.hpp"

#include <algorithm>
#include <utility>

namespace attn::tools {

HeadOutputs::HeadOutputs(io::OutputBundle& bundle, const Shape& leading, cli::Report& report,
                         ProblemShare* share, std::string problem)
    : bundle_(bundle),
      leading_(leading),
      report_(report),
      share_(share),
      problem_(std::move(problem)) {}

void HeadOutputs::create(const std::string& name, DType type, const Shape& own,
                         const std::vector<std::string>& own_labels, const Shape& own_chunk,
                         bool heads_inside, bool padded) {
  const std::size_t before = leading_.size();
  BlockLayout layout{.name = name, .shape = join(leading_, own), .axes = first_axes(before)};
  // Leading axes before the axis of heads have no common name.
  layout.labels.assign(before, "");
  if (before > 0) layout.labels.back() = problem_;
  layout.labels.insert(layout.labels.end(), own_labels.begin(), own_labels.end());
  if (heads_inside && before > 0) {
    std::swap(layout.shape[before - 1], layout.shape[before]);
    std::swap(layout.labels[before - 1], layout.labels[before]);
    layout.axes.back() = before;
  }
  if (!own_chunk.empty()) layout.chunk = join(Shape(before, 1), own_chunk);
  layout.padded = padded;
  datasets_.emplace(name, BlockOutput(bundle_, type, std::move(layout), share_, report_));
}

Shape HeadOutputs::position(Index problem) const {
  if (share_ == nullptr) return unravel(problem, leading_);
  const std::vector<Index>& own = share_->own();
  return {std::lower_bound(own.begin(), own.end(), problem) - own.begin()};
}

}  // namespace attn::tools
