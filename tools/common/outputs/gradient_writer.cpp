#include "common/outputs/gradient_writer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

// The last leading axis is the axis of the heads, as in results by head.
std::vector<std::string> axis_labels(const GradientKind& kind) {
  if (!kind.of || kind.labels.empty()) return {};
  std::vector<std::string> labels(kind.of->leading.size(), "");
  if (!labels.empty() && kind.labels.back() != "input") labels.back() = "head";
  labels.insert(labels.end(), kind.labels.begin(), kind.labels.end());
  if (kind.of->heads == HeadAxis::inside)
    std::swap(labels[labels.size() - 2], labels[labels.size() - 3]);
  // A dataset may have fewer axes than its blocks, such as a bias by key.
  const auto extra = static_cast<std::ptrdiff_t>(labels.size() - kind.shape().size());
  labels.erase(labels.begin(), labels.begin() + extra);
  return labels;
}

// Where blocks lie in a run that is divided: never along the rows of wo, which all heads share, nor
// along the heads of a block of all heads.
BlockLayout layout_of(const GradientKind& kind) {
  BlockLayout layout{.name = kind.name, .shape = kind.shape(), .labels = axis_labels(kind)};
  if (!kind.of) return layout;
  const std::size_t leading = kind.of->leading.size();
  layout.axes = first_axes(kind.of_all_heads() && leading > 0 ? leading - 1 : leading);
  if (!kind.chunk.empty()) layout.chunk = join(Shape(leading, 1), kind.chunk);
  if (kind.of->heads == HeadAxis::inside) ++layout.axes.back();
  return layout;
}

}  // namespace

template <class T>
GradientWriter<T>::GradientWriter(io::OutputBundle& output, const std::vector<GradientKind>& kinds,
                                  const AttentionInput& input, cli::Report& report)
    : input_(input) {
  const DType type = sizeof(T) == sizeof(double) ? DType::f64 : DType::f32;
  for (const GradientKind& kind : kinds) {
    const std::vector<Index> blocks = blocks_by_problem(kind, input.problems);
    gradients_.push_back(
        {kind, BlockOutput(output, type, layout_of(kind), input.share.get(), report, blocks),
         SharedSums<T>(blocks, kind.blocks())});
  }
}

template <class T>
void GradientWriter<T>::add(std::size_t kind, Index problem, std::span<const T> part) {
  Gradient& gradient = gradients_[kind];
  require_finite(gradient, problem, part);
  const Index block = gradient.kind.block(problem);
  if (gradient.sums.is_alone(problem)) {
    write(gradient, block, part.data());
    return;
  }
  const auto sum = gradient.sums.add(problem, part);
  if (sum.empty()) return;
  require_finite(gradient, problem, sum);
  write(gradient, block, sum.data());
}

template <class T>
Shape GradientWriter<T>::position(std::size_t kind, Index problem) const {
  const Gradient& gradient = gradients_[kind];
  Shape start = gradient.dataset.box(gradient.kind.block(problem)).start;
  start.resize(start.size() - 2);
  return start;
}

template <class T>
void GradientWriter<T>::require_finite(const Gradient& gradient, Index problem,
                                       std::span<const T> part) const {
  if (!gradient.kind.finite) return;
  if (std::all_of(part.begin(), part.end(), [](T x) { return std::isfinite(x); })) return;
  constexpr bool is_float = sizeof(T) == sizeof(float);
  throw Error(Failure::numerical,
              input_.place(problem) + ": " + gradient.kind.name + " is beyond the range of " +
                  (is_float ? "float32" : "float64"),
              is_float ? "--precision f64" : "");
}

template <class T>
void GradientWriter<T>::write(Gradient& gradient, Index block, const T* values) const {
  if (input_.share || !gradient.kind.of) return gradient.dataset.write(block, values);
  const Operand& of = *gradient.kind.of;
  const BlockAxes axes(of, block, 0, of.rows, 0, of.cols);
  gradient.dataset.dataset().write(axes.start, axes.count, values);
}

template class GradientWriter<float>;
template class GradientWriter<double>;

}  // namespace attn::tools
