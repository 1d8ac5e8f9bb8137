#include "sinkhorn_iter/bulk_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/outputs/position_boxes.hpp"
#include "head/operand.hpp"
#include "io/address.hpp"
#include "io/input.hpp"

namespace attn::tools {
namespace {

struct Rounding {
  double stored;    // w
  double computed;  // u
  double least;     // normal number, or for float16 half the spacing there
};

Rounding rounding_of(DType type) {
  constexpr double of_f32 = 0x1p-24;
  if (type == DType::f16) return {0x1p-11, of_f32, 0x1p-25};
  if (type == DType::bf16) return {0x1p-8, of_f32, 0x1p-126};
  if (type == DType::f32) return {of_f32, of_f32, 0x1p-126};
  return {0x1p-53, 0x1p-52, 0x1p-1022};  // both sides round
}

// max − min of the finite scores of a matrix.
double range_of(const double* scores, Index size) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  double most = -infinite, least = infinite;
  for (Index k = 0; k < size; ++k) {
    most = std::max(most, scores[k]);
    if (scores[k] > -infinite) least = std::min(least, scores[k]);
  }
  return std::max(0.0, most - least);
}

std::optional<ArraySource> result_of(const io::InputBundle& file, const char* name,
                                     const Shape& shape) {
  if (!file.has(name)) return std::nullopt;
  ArraySource found = file.dataset(name);
  require_floating(found);
  if (found.shape() == shape) return found;
  throw Error(Failure::input, fmt::format("{} has shape {}, expected {}", found.address(),
                                          to_string(found.shape()), to_string(shape)));
}

}  // namespace

KernelResults::KernelResults(const cli::Arguments& arguments, const ArraySource& scores) {
  io::InputBundle::Options options;
  options.input = arguments.text("against");
  std::error_code none;
  const std::string path = io::parse_address(*options.input).file;
  if (arguments.output && std::filesystem::equivalent(path, *arguments.output, none)) {
    throw Error(Failure::usage,
                fmt::format("-o {} would replace the results of --against", *arguments.output));
  }
  options.tmpdir = arguments.tmpdir;
  options.allow_external = arguments.allow_external;
  const io::InputBundle file(options);
  plan = result_of(file, "plan", scores.shape());
  grad_scores = result_of(file, "grad_scores", scores.shape());
  if (plan || grad_scores) return;
  throw Error(Failure::input,
              fmt::format("--against {}: there is no dataset plan or grad_scores to compare",
                          arguments.text("against")));
}

void KernelComparison::add(Index first, Index count, const Right& right) {
  if (kernel_.plan) add_plans(*kernel_.plan, first, count, right);
  if (kernel_.grad_scores) add_gradients(*kernel_.grad_scores, first, count, right);
}

void KernelComparison::add_plans(const ArraySource& kernel, Index first, Index count,
                                 const Right& right) {
  read(kernel, first, count);
  const Rounding rounding = rounding_of(kernel.dtype());
  const Index size = rows_ * cols_;
  const auto divisions = static_cast<double>(rows_ + cols_ + 4 * iterations_);
  for (Index n = 0; n < count; ++n) {
    const double roundings = 2 * range_of(right.scores + n * size, size) + divisions;
    compare(kernel, first + n, numbers_.data() + n * size, right.plan + n * size,
            {rounding.stored + roundings * rounding.computed, rounding.least});
  }
}

void KernelComparison::add_gradients(const ArraySource& kernel, Index first, Index count,
                                     const Right& right) {
  read(kernel, first, count);
  const Rounding rounding = rounding_of(kernel.dtype());
  const Index size = rows_ * cols_;
  const auto roundings = static_cast<double>(rows_ + cols_ + iterations_);
  for (Index n = 0; n < count; ++n) {
    double largest = 0;
    for (Index k = n * size; k < (n + 1) * size; ++k) {
      largest = std::max(largest, std::abs(right.grad_plan[k]));
    }
    compare(kernel, first + n, numbers_.data() + n * size, right.grad_scores + n * size,
            {rounding.stored, roundings * rounding.computed * largest + rounding.least});
  }
}

void KernelComparison::read(const ArraySource& kernel, Index first, Index count) {
  const Shape& shape = kernel.shape();
  numbers_.reserve(std::max<Index>(1, count * rows_ * cols_));
  for_position_boxes(Shape(shape.begin(), shape.end() - 2), {rows_, cols_}, first, count,
                     [&](const Shape& start, const Shape& box, Index place) {
                       kernel.read(start, box, numbers_.data() + place);
                     });
}

void KernelComparison::compare(const ArraySource& kernel, Index matrix, const double* numbers,
                               const double* right, const Tolerance& tolerance) {
  const Index size = rows_ * cols_;
  Difference one;
  one.add(numbers, right, matrix * size, size, tolerance);
  KernelDifference& all = found_[kernel.name()];
  ++all.matrices;
  if (one.differing == 0) return;
  const Index entry = one.absolute_at - matrix * size;
  all.add({.differing = 1,
           .largest = one.largest_absolute,
           .index = unravel(one.absolute_at, kernel.shape()),
           .found = numbers[entry],
           .expected = right[entry]});
}

}  // namespace attn::tools
