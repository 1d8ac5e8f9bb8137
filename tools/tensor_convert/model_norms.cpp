#include "tensor_convert/model_norms.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {
namespace {

// Tensors (size), one of each head, as (heads, size).
Produced stacked(const std::vector<ArraySource>& heads) {
  Produced made = produced(heads[0], std::nullopt);
  const Shape one = made.shape;
  made.shape.insert(made.shape.begin(), std::ssize(heads));
  made.read = [heads, size = static_cast<Index>(size_of(made.type))](
                  const Shape& start, const Shape& count, void* out) {
    for (Index h = 0; h < count[0]; ++h) {
      heads[static_cast<std::size_t>(start[0] + h)].read_stored(
          {start[1]}, {count[1]}, static_cast<char*>(out) + h * count[1] * size);
    }
  };
  for (const ArraySource& head : heads) {
    if (head.shape() == one && head.dtype() == made.type) continue;
    throw Error(Failure::input, fmt::format("{} is {} of {}, expected {} of {}, as {}",
                                            head.address(), to_string(head.shape()), head.type(),
                                            to_string(one), heads[0].type(), heads[0].address()));
  }
  return made;
}

Produced plus_one(const Produced& stored) {
  Produced made = rounded(stored, stored.type == DType::f64 ? DType::f64 : DType::f32);
  made.read = [read = made.read, is_double = made.type == DType::f64](
                  const Shape& start, const Shape& count, void* out) {
    read(start, count, out);
    const Index total = element_count(count);
    for (Index n = 0; n < total; ++n) {
      if (is_double) {
        static_cast<double*>(out)[n] += 1;
      } else {
        static_cast<float*>(out)[n] += 1;
      }
    }
  };
  return made;
}

// "q_norm", "q_layernorm", or a norm of each head, "q_layernorm.norms.3": the tensor `part` of it.
std::optional<Produced> tensor_of(const std::vector<io::InputBundle>& bundles,
                                  const std::string& norm, const char* part, Index heads,
                                  std::set<std::string>& read) {
  const auto take = [&](const std::string& name) {
    read.insert(name);
    return find_tensor(bundles, name);
  };
  if (const auto whole = take(norm + part)) return produced(*whole, std::nullopt);
  std::vector<ArraySource> found;
  for (Index h = 0; h < heads; ++h) {
    const std::string name = fmt::format("{}.norms.{}{}", norm, h, part);
    const auto head = take(name);
    if (!head && h == 0) return std::nullopt;
    if (!head) {
      throw Error(Failure::input, fmt::format("{}: there is no {}", found[0].address(), name));
    }
    found.push_back(*head);
  }
  return stacked(found);
}

}  // namespace

Produced made_of(const std::string& name, Shape shape, std::vector<double> numbers,
                 const std::string& address) {
  Produced made{name, DType::f64, std::move(shape), {}, address, {}};
  const auto stored = std::make_shared<const std::vector<double>>(std::move(numbers));
  made.read = [stored, whole = made.shape](const Shape& start, const Shape& count, void* out) {
    // A piece is whole rows, or a part of one.
    Index first = 0;
    for (std::size_t axis = 0; axis < whole.size(); ++axis)
      first = first * whole[axis] + start[axis];
    std::copy_n(stored->begin() + first, element_count(count), static_cast<double*>(out));
  };
  return made;
}

std::vector<Produced> head_norm(const std::vector<io::InputBundle>& bundles,
                                const ModelNames& names, HeadNormKind kind,
                                const std::string& letter, Index heads, Index size,
                                std::set<std::string>& read) {
  const std::string name = letter + (kind == HeadNormKind::layer ? "_layer_norm" : "_norm");
  std::vector<Produced> results;
  for (const char* stored : {"_norm", "_layernorm"}) {
    const std::string norm = names.base + letter + stored;
    if (!results.empty()) break;
    auto weights = tensor_of(bundles, norm, ".weight", heads, read);
    if (!weights) continue;
    results.push_back(kind == HeadNormKind::rms_plus_one ? plus_one(*weights)
                                                         : std::move(*weights));
    results.back().name = name;
    if (kind != HeadNormKind::layer) continue;
    if (auto bias = tensor_of(bundles, norm, ".bias", heads, read)) {
      results.push_back(std::move(*bias));
      results.back().name = name + "_bias";
    }
  }
  if (results.empty()) {
    throw Error(Failure::input,
                fmt::format("{}: no dataset {}{}_norm.weight", bundles[0].description(), names.base,
                            letter),
                "config.json says that queries and keys are normalised");
  }
  for (Produced& made : results) {
    const Shape& shape = made.shape;
    const bool fits =
        shape == Shape{size} || shape == Shape{heads, size} || shape == Shape{heads * size};
    if (!fits || !is_floating(made.type)) {
      throw Error(
          Failure::input,
          fmt::format("{} is {} of {}, expected ({}), ({}, {}) or ({}) numbers", made.address,
                      to_string(shape), attn::name(made.type), size, heads, size, heads * size));
    }
    made.labels.assign(shape.size(), "channel");
    if (shape.size() == 2) made.labels[0] = "head";
  }
  return results;
}

}  // namespace attn::tools
