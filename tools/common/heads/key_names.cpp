#include "common/heads/key_names.hpp"

#include <cstdint>

#include <fmt/format.h>

namespace attn::tools {
namespace {

// The ids of tokens, if their strings are missing.
std::vector<std::string> numbers_as_text(const ArraySource& dataset) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(element_count(dataset.shape())));
  dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), numbers.data());
  std::vector<std::string> text;
  for (const std::int64_t number : numbers) text.push_back(fmt::to_string(number));
  return text;
}

}  // namespace

KeyNames read_key_names(const io::InputBundle& bundle, const Shape& leading, Index keys,
                        cli::Report& report) {
  if (!bundle.has("tokens")) return {};
  const ArraySource tokens = bundle.dataset("tokens");
  const Shape& shape = tokens.shape();
  const bool one_list = shape == Shape{keys} || shape == Shape{1, keys};
  const bool per_batch = !leading.empty() && shape == Shape{leading.front(), keys};
  const bool ids = is_integral(tokens.dtype()) && tokens.dtype() != DType::boolean;
  if ((tokens.dtype() != DType::string && !ids) || (!one_list && !per_batch)) {
    report.warn(tokens.address() + " is not used: it has shape " + to_string(shape) + " and type " +
                tokens.type() + ", expected strings of " + to_string({keys}));
    return {};
  }
  return {ids ? numbers_as_text(tokens) : tokens.read_strings(),
          element_count(leading) / (one_list ? 1 : leading.front())};
}

}  // namespace attn::tools
