#include "attn_compute/attention_results.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/outputs/pair_writer.hpp"

namespace attn::tools {

bool ComputeOptions::emits_gradients() const {
  const auto& names = gradient_names();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& result) { return emits(result); });
}

Shape own_shape(const ResultKind& kind, const ComputeOptions& options,
                const AttentionInput& input) {
  const Index queries =
      kind.by_choice && options.queries ? options.queries->count() : input.queries;
  Shape shape;
  for (const std::string& axis : kind.axes) {
    const Index length = axis == "query"     ? queries
                         : axis == "key"     ? input.keys
                         : axis == "channel" ? input.v_head_dim
                                             : input.depth;
    shape.push_back(length);
  }
  return shape;
}

void create_results(HeadOutputs& outputs, const ComputeOptions& options,
                    const AttentionInput& input, bool f64) {
  for (const ResultKind& kind : result_kinds()) {
    if (!options.emits(kind.name)) continue;
    const DType type = f64 || !kind.computed_type ? DType::f64 : DType::f32;
    const Shape shape = own_shape(kind, options, input);
    const Shape chunk = kind.by_pair() ? pairs_chunk(shape.front(), shape.back()) : Shape{};
    const bool inside = (kind.name == "out" || kind.name == "centre") &&
                        input.options.layout == ScoreOptions::Layout::heads_inside;
    outputs.create(kind.name, type, shape, kind.axes, chunk, inside);
  }
}

}  // namespace attn::tools
