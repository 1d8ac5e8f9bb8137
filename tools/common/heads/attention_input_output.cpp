// The inputs for the output of attention besides scores and values: gates, the joining of heads,
// and upstream gradients.

#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/heads/attention_input.hpp"

namespace attn::tools {
namespace {

using Layout = ScoreOptions::Layout;

[[noreturn]] void refuse_shape(const ArraySource& dataset, const Shape& expected,
                               const std::string& meaning, const std::string& hint = "") {
  throw Error(Failure::input,
              fmt::format("{} has shape {}, expected {}{}", dataset.address(),
                          to_string(dataset.shape()), to_string(expected), meaning),
              hint);
}

// The leading axes of one number per sequence, aligned with the heads' leading axes.
Shape by_sequence(Shape leading) {
  if (!leading.empty()) leading.back() = 1;
  return leading;
}

}  // namespace

void AttentionInput::take_grad_out(const io::InputBundle& bundle) {
  const ArraySource dataset = bundle.dataset("grad_out");
  const bool inside = options.layout == Layout::heads_inside;
  require_vectors(dataset, inside ? "(..., queries, heads, dv)" : "(..., queries, dv)");
  if (heads_first(dataset, options.layout) != join(leading, {queries, v_head_dim})) {
    Shape expected = join(leading, {queries, v_head_dim});
    if (inside) std::swap(expected[expected.size() - 2], expected[expected.size() - 3]);
    refuse_shape(dataset, expected, " as out");
  }
  Operand operand = vectors_operand(dataset, leading, false, options.layout);
  grad_out = Vectors{std::move(operand), {}, {}, queries, v_head_dim};
  if (dataset.dtype() == DType::f64) any_float64 = true;
}

void AttentionInput::take_join(const io::InputBundle& bundle) {
  for (Index problem = 0; problem < problems; ++problem) {
    const TileRange& own = part(problem).range;
    const TileRange& first = part(problem - problem % heads()).range;
    if (own.row0 == first.row0 && own.rows == first.rows) continue;
    throw Error(Failure::input,
                fmt::format("{}: its queries are {} to {}, the sequence's first head has {} to {}, "
                            "expected the same, as the heads are joined",
                            place(problem), own.row0, own.row0 + own.rows, first.row0,
                            first.row0 + first.rows));
  }
  joined_width = heads() * v_head_dim;
  if (!bundle.has("wo")) {
    if (!bundle.has("bo")) return;
    throw Error(Failure::usage,
                bundle.dataset("bo").address() + ": --join applies bo after wo, which is missing",
                "-i wo=FILE:/path");
  }
  const ArraySource weights = bundle.dataset("wo");
  require_vectors(weights, "(H dv, D)");
  const Shape& shape = weights.shape();
  if (shape.size() != 2 || shape.front() != joined_width) {
    const bool turned = shape.size() == 2 && shape.back() == joined_width;
    refuse_shape(weights, {joined_width, turned ? shape.front() : shape.back()},
                 fmt::format(", (H dv, D) for {} of {}", cli::counted(heads(), "head"),
                             cli::counted(v_head_dim, "channel")),
                 turned ? "transpose it: PyTorch's Linear stores (D, H dv)" : "");
  }
  const Shape by_head = leading.empty() ? Shape{} : Shape{heads()};
  wo.emplace(Operand{weights, by_head, v_head_dim, shape.back(),
                     LeadingMap(leading, by_head, false, weights.address())});
  wo->heads = HeadAxis::in_rows;
  joined_width = shape.back();
  if (weights.dtype() == DType::f64) any_float64 = true;
  if (!bundle.has("bo")) return;
  const ArraySource offset = bundle.dataset("bo");
  require_floating(offset);
  if (offset.shape() != Shape{joined_width})
    refuse_shape(offset, {joined_width}, " as wo has columns");
  bo.emplace(vector_operand(offset, leading, false, joined_width));
  if (offset.dtype() == DType::f64) any_float64 = true;
}

void AttentionInput::take_grad_joined(const io::InputBundle& bundle) {
  const ArraySource dataset = bundle.dataset("grad_joined");
  require_vectors(dataset, "(..., queries, D)");
  if (dataset.shape() != joined_shape(queries)) {
    refuse_shape(dataset, joined_shape(queries), " as joined");
  }
  if (dataset.dtype() == DType::f64) any_float64 = true;
  if (!wo) {
    Operand columns{dataset, leading, queries, v_head_dim,
                    LeadingMap(leading, leading, false, dataset.address())};
    columns.heads = HeadAxis::in_columns;
    grad_out = Vectors{std::move(columns), {}, {}, queries, v_head_dim};
    return;
  }
  Operand rows{dataset, leading_axes(dataset.shape(), 2), queries, joined_width,
               LeadingMap(leading, by_sequence(leading), false, dataset.address())};
  grad_out = Vectors{std::move(rows), wo, {}, queries, v_head_dim, true};
}

}  // namespace attn::tools
