#include "alignment_attention/weight_pairs.hpp"

#include <limits>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/foreign_names.hpp"
#include "head/operand.hpp"

namespace attn::tools {
namespace {

// The first dataset that is present.
std::optional<ArraySource> one_of(const io::InputBundle& bundle,
                                  const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (bundle.has(name)) return bundle.dataset(name);
  }
  return std::nullopt;
}

std::vector<Index> own_lengths(const std::optional<ArraySource>& dataset, const Shape& leading,
                               Index axis) {
  if (dataset) return integers_per_problem(*dataset, leading, 0, axis);
  return std::vector<Index>(static_cast<std::size_t>(element_count(leading)), axis);
}

void require_shape(const ArraySource& dataset, const Shape& expected) {
  if (dataset.shape() == expected) return;
  throw Error(Failure::input, fmt::format("{} has the shape {}, expected {}", dataset.address(),
                                          to_string(dataset.shape()), to_string(expected)));
}

void read_weights(const ArraySource& dataset, const Shape& place, const Shape& from,
                  const Shape& size, double* weights) {
  const Shape start = join(place, from);
  const Shape count = join(Shape(place.size(), 1), size);
  const Index numbers = element_count(count);
  if (numbers == 0) return;
  dataset.read(start, count, weights);
  for (Index n = 0; n < numbers; ++n) {
    // NaN fails the comparison.
    if (weights[n] >= 0 && weights[n] <= std::numeric_limits<double>::max()) continue;
    refuse_element(dataset, start, count, n, weights[n], "numbers >= 0");
  }
}

}  // namespace

WeightPairs::WeightPairs(const io::InputBundle& bundle)
    : weights_(bundle.dataset("weights")),
      reverse_(one_of(bundle, {"reverse_weights"})),
      source_length_(one_of(bundle, {"source_length", "key_length"})),
      target_length_(one_of(bundle, {"target_length", "query_length"})) {
  const Shape& shape = weights_.shape();
  if (shape.size() < 2) {
    throw Error(Failure::input, fmt::format("{} has the shape {}, expected (..., J, I)", address(),
                                            to_string(shape)));
  }
  leading_ = leading_axes(shape, 2);
  target_axis_ = shape[shape.size() - 2];
  source_axis_ = shape.back();
  if (!leading_.empty()) {
    pairs_ = leading_.front();
    head_axes_ = Shape(leading_.begin() + 1, leading_.end());
  }
  if (reverse_) require_shape(*reverse_, join(leading_, {source_axis_, target_axis_}));
  source_words_ = own_lengths(source_length_, leading_, source_axis_);
  target_words_ = own_lengths(target_length_, leading_, target_axis_);
  if (const auto start = one_of(bundle, {"query_start", "key_start"})) {
    throw Error(Failure::input, start->address() + ": padding on the left is not supported here");
  }
  require_no_masks(bundle, {"source_length", "target_length", "key_length", "query_length"});
}

std::vector<ArraySource> WeightPairs::datasets() const {
  std::vector<ArraySource> all = {weights_};
  for (const auto* const dataset : {&reverse_, &source_length_, &target_length_}) {
    if (*dataset) all.push_back(**dataset);
  }
  return all;
}

std::string WeightPairs::place(Index pair, Index head) const {
  if (leading_.empty()) return address();
  const Shape index = unravel(pair * heads() + head, leading_);
  return fmt::format("{}[{}]", address(), fmt::join(index, ", "));
}

void WeightPairs::read(Index pair, Index head, Index row, Index rows, double* weights) const {
  const Shape index = unravel(pair * heads() + head, leading_);
  read_weights(weights_, index, {row, 0}, {rows, source_words(pair, head)}, weights);
}

void WeightPairs::read_reverse(Index pair, Index head, Index row, Index rows,
                               double* weights) const {
  const Shape index = unravel(pair * heads() + head, leading_);
  read_weights(reverse_.value(), index, {0, row}, {source_words(pair, head), rows}, weights);
}

}  // namespace attn::tools
