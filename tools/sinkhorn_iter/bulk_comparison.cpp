#include "sinkhorn_iter/bulk_comparison.hpp"

#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "head/operand.hpp"
#include "io/address.hpp"
#include "io/input.hpp"

namespace attn::tools {
namespace {

// The unit roundoff of a type, and its least normal number, or for float16 half its spacing there.
struct Rounding {
  double unit, least;
};

Rounding rounding_of(DType type) {
  if (type == DType::f16) return {0x1p-11, 0x1p-25};
  if (type == DType::bf16) return {0x1p-8, 0x1p-126};
  if (type == DType::f32) return {0x1p-24, 0x1p-126};
  return {0x1p-53, std::numeric_limits<double>::min()};
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

KernelComparison::KernelComparison(const ArraySource& kernel, const Sizes& sizes)
    : shape_(kernel.shape()), sizes_(sizes) {
  const Rounding stored = rounding_of(kernel.dtype());
  stored_ = stored.unit;
  least_ = stored.least;
  // Float64 rounds on both sides.
  const bool is_f64 = kernel.dtype() == DType::f64;
  computed_ = is_f64 ? 2 * stored_ : rounding_of(DType::f32).unit;
}

void KernelComparison::add_plans(Index first, Index count, const double* kernel,
                                 const double* right, const double* ranges) {
  const Index size = sizes_.rows * sizes_.cols;
  const auto roundings = static_cast<double>(sizes_.rows + sizes_.cols + 4 * sizes_.iterations);
  for (Index n = 0; n < count; ++n) {
    const double relative = stored_ + (2 * ranges[n] + roundings) * computed_;
    add(first + n, kernel + n * size, right + n * size, {relative, least_});
  }
}

void KernelComparison::add_gradients(Index first, Index count, const double* kernel,
                                     const double* right, const double* largest_upstream) {
  const Index size = sizes_.rows * sizes_.cols;
  const auto roundings = static_cast<double>(sizes_.rows + sizes_.cols + sizes_.iterations);
  for (Index n = 0; n < count; ++n) {
    const double absolute = roundings * computed_ * largest_upstream[n] + least_;
    add(first + n, kernel + n * size, right + n * size, {stored_, absolute});
  }
}

void KernelComparison::add(Index matrix, const double* kernel, const double* right,
                           const Tolerance& tolerance) {
  const Index size = sizes_.rows * sizes_.cols;
  Difference one;
  one.add(kernel, right, matrix * size, size, tolerance);
  ++found_.matrices;
  if (one.differing == 0) return;
  KernelDifference worse;
  worse.differing = 1;
  worse.largest = one.largest_absolute;
  worse.index = unravel(one.absolute_at, shape_);
  const Index entry = one.absolute_at - matrix * size;
  worse.found = kernel[entry];
  worse.expected = right[entry];
  found_.add(worse);
}

}  // namespace attn::tools
