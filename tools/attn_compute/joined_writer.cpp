#include "attn_compute/joined_writer.hpp"

#include <algorithm>
#include <cmath>

#include "attnkit/error.hpp"
#include "score/panel_product.hpp"

namespace attn::tools {
namespace {

// Reads a head's block of wo or bo.
template <class T>
void read_block(const Operand& operand, Index problem, Buffer<T>& values) {
  const BlockAxes axes(operand, operand.block(problem), 0, operand.rows, 0, operand.cols);
  values.reserve(operand.rows * operand.cols);
  operand.dataset.read(axes.start, axes.count, values.data());
  require_finite(operand.dataset, axes.start, axes.count, values.data());
}

BlockLayout layout_of(const Shape& shape) {
  BlockLayout layout{.name = "joined", .shape = shape, .axes = first_axes(shape.size() - 2)};
  layout.labels.assign(shape.size() - 2, "");
  layout.labels.insert(layout.labels.end(), {"query", "dimension"});
  return layout;
}

}  // namespace

template <class T>
JoinedWriter<T>::JoinedWriter(io::OutputBundle& output, const AttentionInput& input,
                              const RowSelection* chosen, cli::Report& report)
    : input_(input),
      chosen_(chosen),
      count_(chosen == nullptr ? input.queries : chosen->count()),
      dataset_(output, sizeof(T) == sizeof(double) ? DType::f64 : DType::f32,
               layout_of(input.joined_shape(count_)), input.share.get(), report, input.sequences()),
      joined_(count_ * input.joined_width) {
  if (input.bo) read_block(*input.bo, 0, bo_);
}

template <class T>
void JoinedWriter<T>::begin(Index problem) {
  const Index width = input_.joined_width;
  std::fill_n(joined_.data(), count_ * width, T{0});
  if (!input_.bo) return;
  const TileRange& own = input_.part(problem).range;
  const auto place = [&](Index query) {
    return chosen_ == nullptr ? query : chosen_->position(query);
  };
  for (Index row = place(own.row0), end = place(own.row0 + own.rows); row < end; ++row) {
    std::copy_n(bo_.data(), width, joined_.data() + row * width);
  }
}

template <class T>
void JoinedWriter<T>::add(Index problem, const T* out, int threads) {
  const Index head = problem % input_.heads();
  const Index dv = input_.v_head_dim;
  const Index width = input_.joined_width;
  if (head == 0) begin(problem);
  if (input_.wo) {
    read_block(*input_.wo, problem, wo_);
    multiply_add_by_panels<T>({out, count_, dv}, {wo_.data(), dv, width},
                              {joined_.data(), count_, width}, threads);
  } else {
    for (Index i = 0; i < count_; ++i) {
      std::copy_n(out + i * dv, dv, joined_.data() + i * width + head * dv);
    }
  }
  if (head + 1 == input_.heads()) finish(problem);
}

template <class T>
void JoinedWriter<T>::finish(Index problem) {
  const Index size = count_ * input_.joined_width;
  if (!std::all_of(joined_.data(), joined_.data() + size, [](T x) { return std::isfinite(x); })) {
    throw_beyond_range<T>(input_.place(problem) + ": joined is beyond the range of");
  }
  dataset_.write(problem / input_.heads(), joined_.data());
}

template class JoinedWriter<float>;
template class JoinedWriter<double>;

std::int64_t joined_bytes(const AttentionInput& input, Index count, std::size_t element_size) {
  const Index of_wo = input.wo ? input.v_head_dim * input.joined_width : 0;
  const Index elements = (count + 1) * input.joined_width + of_wo;
  return elements * static_cast<std::int64_t>(element_size) + 3 * buffer_margin;
}

}  // namespace attn::tools
