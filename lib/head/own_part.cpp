#include "head/own_part.hpp"

#include <string>

#include "attnkit/error.hpp"

namespace attn {
namespace {

struct Span {
  Index first = 0;
  Index count = 0;
};

void require_within(const std::string& name, Index value, Index most) {
  if (value >= 0 && value <= most) return;
  throw Error(Failure::input, name + " is " + std::to_string(value) +
                                  ", expected a whole number in [0, " + std::to_string(most) + "]");
}

Span span_of(const std::string& side, std::optional<Index> start, std::optional<Index> length,
             Index total) {
  Span span;
  span.first = start.value_or(0);
  require_within(side + "_start", span.first, total);
  span.count = length.value_or(total - span.first);
  require_within(side + "_length", span.count, total);
  if (span.count <= total - span.first) return span;
  throw Error(Failure::input, side + "_start is " + std::to_string(span.first) + " and " + side +
                                  "_length " + std::to_string(span.count) +
                                  ", expected a sum of at most " + std::to_string(total));
}

}  // namespace

OwnPart own_part(const SequenceBounds& bounds, Index queries, Index keys, Causal causal) {
  const Span rows = span_of("query", bounds.query_start, bounds.query_length, queries);
  const Span cols = span_of("key", bounds.key_start, bounds.key_length, keys);
  OwnPart part;
  part.range = {rows.first, rows.count, cols.first, cols.count};
  part.offset = bounds.query_offset.value_or(usual_offset(causal, rows.count, cols.count));
  return part;
}

}  // namespace attn
