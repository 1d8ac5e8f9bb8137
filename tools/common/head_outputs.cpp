#include "common/head_outputs.hpp"

#include <utility>

namespace attn::tools {

HeadOutputs::HeadOutputs(io::OutputBundle& bundle, Shape leading, cli::Report& report,
                         std::string problem)
    : bundle_(bundle),
      leading_(std::move(leading)),
      report_(report),
      problem_(std::move(problem)) {}

void HeadOutputs::create(const std::string& name, DType type, const Shape& own,
                         const std::vector<std::string>& own_labels, const Shape& own_chunk,
                         bool heads_inside) {
  Shape shape = join(leading_, own);
  // Leading axes before that of the heads have no common name.
  std::vector<std::string> labels(leading_.size(), "");
  if (!labels.empty()) labels.back() = problem_;
  labels.insert(labels.end(), own_labels.begin(), own_labels.end());
  if (heads_inside && !leading_.empty()) {
    std::swap(shape[leading_.size() - 1], shape[leading_.size()]);
    std::swap(labels[leading_.size() - 1], labels[leading_.size()]);
    heads_inside_.insert(name);
  }
  const Shape chunk = own_chunk.empty() ? Shape{} : join(Shape(leading_.size(), 1), own_chunk);
  datasets_.emplace(name, bundle_.create(name, type, shape, labels, chunk));
  report_.output(name, bundle_.address_of(name), shape, type);
}

}  // namespace attn::tools
