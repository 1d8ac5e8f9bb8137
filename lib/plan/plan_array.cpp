#include "plan/plan_array.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace attn::plan {
namespace {

Shape with_axes(const Shape& shape, std::size_t least) {
  return shape.size() < least ? join(Shape(least - shape.size(), 1), shape) : shape;
}

std::string text_of(const std::optional<Shape>& shape) {
  return shape ? to_string(*shape) : "absent";
}

}  // namespace

PlanArray::PlanArray(std::string name, std::optional<Shape> shape, std::size_t trailing)
    : name_(std::move(name)), shape_(shape) {
  if (!shape_) return;
  const bool negative = std::any_of(shape_->begin(), shape_->end(), [](Index n) { return n < 0; });
  if (negative || shape_->size() < trailing) {
    throw Error(Failure::input, name_ + " has the shape " + to_string(*shape_) +
                                    (negative ? ", expected lengths >= 0"
                                              : ", expected at least " + std::to_string(trailing) +
                                                    (trailing == 1 ? " axis" : " axes")));
  }
  element_count(*shape_);  // throws if the count does not fit into an Index
  leading_ = leading_axes(*shape_, trailing);
  block_ = Shape(shape_->end() - trailing, shape_->end());
  size_ = element_count(block_);
}

PlanArray PlanArray::broadcasting(std::string name, std::optional<Shape> shape,
                                  std::size_t trailing) {
  if (!shape) return PlanArray(std::move(name), std::nullopt, trailing);
  PlanArray operand(std::move(name), with_axes(*shape, trailing), trailing);
  operand.shape_ = shape;
  return operand;
}

void PlanArray::require_block(const Shape& expected, bool stretches) const {
  if (!present()) return;
  bool fits = true;
  for (std::size_t n = 0; n < expected.size(); ++n) {
    fits = fits && (block_[n] == expected[n] || (stretches && block_[n] == 1));
  }
  if (fits) return;
  throw Error(Failure::input, name_ + " has the last axes " + to_string(block_) + ", expected " +
                                  to_string(expected) + (stretches ? " or 1 in their place" : ""));
}

void PlanArray::broadcast_to(const Shape& leading) {
  if (present()) map_.emplace(leading, leading_, false, name_);
}

void PlanArray::require_same(const std::optional<Shape>& given, bool has_data) const {
  const bool same = given == shape_ && (has_data || !shape_ || element_count(*shape_) == 0);
  if (same) return;
  const bool no_data = given == shape_;
  throw Error(Failure::input, name_ + " is " + (no_data ? "without data" : text_of(given)) +
                                  ", the plan was made for " + text_of(shape_));
}

Shape common_leading(const std::vector<const PlanArray*>& operands) {
  Shape common;
  const PlanArray* before = nullptr;
  for (const PlanArray* operand : operands) {
    if (!operand->present()) continue;
    if (!broadcast(common, operand->leading(), common)) {
      throw Error(Failure::input, operand->name() + " has the leading axes " +
                                      to_string(operand->leading()) +
                                      ", which do not broadcast with " + to_string(common) +
                                      " of " + before->name());
    }
    before = operand;
  }
  return common;
}

void require_output(const std::string& name, bool wanted, const Shape& shape,
                    const Shape& expected) {
  if (!wanted || shape == expected) return;
  throw Error(Failure::input, "the output " + name + " is " + to_string(shape) + ", expected " +
                                  to_string(expected));
}

void require_array(const std::string& name, bool has_data, const Shape& shape,
                   const Shape& expected) {
  if (shape != expected) {
    throw Error(Failure::input,
                name + " is " + to_string(shape) + ", expected " + to_string(expected));
  }
  if (!has_data && element_count(shape) > 0) throw Error(Failure::input, name + " is without data");
}

void refuse_number(const std::string& name, const std::string& value, Index position,
                   const Shape& shape, const std::string& expected) {
  throw Error(Failure::input, name + " has " + value + " at " +
                                  index_text(unravel(position, shape)) + ", expected " + expected);
}

template <class T>
void require_finite(const std::string& name, const TensorView<const T>& array) {
  require_numbers(name, array.data, array.shape, "finite numbers",
                  [](T value) { return std::isfinite(value); });
}

template void require_finite(const std::string&, const TensorView<const float>&);
template void require_finite(const std::string&, const TensorView<const double>&);

}  // namespace attn::plan
