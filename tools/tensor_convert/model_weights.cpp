#include "tensor_convert/model_weights.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"
#include "tensor_convert/model_config.hpp"
#include "tensor_convert/model_names.hpp"

namespace attn::tools {
namespace {

/// A stored matrix, and which of its columns or rows belong to one projection.
struct Matrix {
  ArraySource dataset;
  bool in_out = false;  ///< (in, out), else (out, in)
  Index in = 0;
  Index out = 0;    ///< number of outputs of the projection
  Index first = 0;  ///< index of its first output in the stored matrix
};

/// `parts` projections are stored side by side; this is number `part`.
Matrix matrix_of(const ArraySource& dataset, bool in_out, Index part, Index parts) {
  if (dataset.shape().size() != 2 || !is_floating(dataset.dtype())) {
    throw Error(Failure::input,
                fmt::format("{} is {} of {}, expected a matrix of numbers", dataset.address(),
                            to_string(dataset.shape()), dataset.type()),
                dataset.dtype() == DType::other
                    ? "float16, bfloat16, float32 and float64 are read, float8 and packed types not"
                    : "");
  }
  Matrix matrix{dataset, in_out, dataset.shape()[in_out ? 0 : 1], dataset.shape()[in_out ? 1 : 0],
                0};
  if (matrix.out % parts != 0) {
    throw Error(Failure::input,
                fmt::format("{} has {} columns, expected {} blocks of the same width",
                            dataset.address(), matrix.out, parts));
  }
  matrix.out /= parts;
  matrix.first = part * matrix.out;
  return matrix;
}

/// Transposes (rows, columns) to (columns, rows).
void transpose(const char* in, Index rows, Index columns, std::size_t size, char* out) {
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      std::memcpy(out + (j * rows + i) * static_cast<Index>(size),
                  in + (i * columns + j) * static_cast<Index>(size), size);
    }
  }
}

Produced by_head(const std::string& name, const Matrix& matrix, Index heads) {
  const Index d = matrix.out / heads;
  const std::size_t size = size_of(matrix.dataset.dtype());
  const auto stored = std::make_shared<Buffer<char>>();
  const auto read = [=](const Shape& start, const Shape& count, void* out) {
    auto* to = static_cast<char*>(out);
    const Index block = count[1] * count[2];
    if (!matrix.in_out) stored->reserve(block * static_cast<Index>(size));
    for (Index h = 0; h < count[0]; ++h) {
      const Index at = matrix.first + (start[0] + h) * d + start[2];
      if (matrix.in_out) {
        matrix.dataset.read_stored({start[1], at}, {count[1], count[2]}, to);
      } else {
        matrix.dataset.read_stored({at, start[1]}, {count[2], count[1]}, stored->data());
        transpose(stored->data(), count[2], count[1], size, to);
      }
      to += block * static_cast<Index>(size);
    }
  };
  return {name,
          matrix.dataset.dtype(),
          {heads, matrix.in, d},
          {"head", "in", "channel"},
          matrix.dataset.address(),
          read};
}

Produced bias_by_head(const std::string& name, const ArraySource& bias, const Matrix& matrix,
                      Index parts, Index heads) {
  if (bias.shape() != Shape{matrix.out * parts} || !is_floating(bias.dtype())) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected ({})", bias.address(),
                                            to_string(bias.shape()), matrix.out * parts));
  }
  const Index d = matrix.out / heads;
  const auto read = [bias, d, first = matrix.first,
                     size = static_cast<Index>(size_of(bias.dtype()))](
                        const Shape& start, const Shape& count, void* out) {
    for (Index h = 0; h < count[0]; ++h) {
      bias.read_stored({first + (start[0] + h) * d + start[1]}, {count[1]},
                       static_cast<char*>(out) + h * count[1] * size);
    }
  };
  return {name, bias.dtype(), {heads, d}, {"head", "channel"}, bias.address(), read};
}

struct Heads {
  Index queries = 0;
  Index keys = 0;
};

/// The number of heads of `size` channels each in `out` channels.
Index divided(const Matrix& matrix, Index size) {
  if (size < 1 || matrix.out % size != 0) {
    throw Error(Failure::input,
                fmt::format("{} has {} channels, which is not a multiple of the head size {}",
                            matrix.dataset.address(), matrix.out, size));
  }
  return matrix.out / size;
}

Heads heads_of(const ModelLayer& wanted, const Matrix& q, const Matrix& k,
               std::optional<Index> from_bias, const ModelConfig& config) {
  std::optional<Index> heads = wanted.heads ? wanted.heads : from_bias;
  std::optional<Index> kv_heads = wanted.kv_heads;
  std::optional<Index> size;
  if (!heads) {
    heads = config.heads;
    size = config.head_size;
    if (!kv_heads) kv_heads = config.kv_heads;
  }
  if (!heads && size) heads = divided(q, *size);
  if (!heads && kv_heads) heads = divided(q, k.out / *kv_heads);
  if (!heads) {
    throw Error(Failure::usage,
                fmt::format("the number of heads of {} is unknown: its shapes do not determine it, "
                            "and there is no {}",
                            q.dataset.address(), wanted.config),
                "give it with --heads");
  }
  if (*heads < 1 || q.out % *heads != 0 || q.out == 0) {
    throw Error(Failure::input,
                fmt::format("{} has {} channels, which is not a multiple of {} heads",
                            q.dataset.address(), q.out, *heads));
  }
  const Heads result{*heads, divided(k, q.out / *heads)};
  if (kv_heads && *kv_heads != result.keys) {
    throw Error(Failure::input,
                fmt::format("{} has {} heads of {} channels, expected {} heads",
                            k.dataset.address(), result.keys, q.out / *heads, *kv_heads));
  }
  if (result.keys == 0 || result.queries % result.keys != 0 ||
      (wanted.model != "llama" && result.keys != result.queries)) {
    throw Error(Failure::input,
                fmt::format("{} has {} heads and {} has {}, which do not match",
                            q.dataset.address(), result.queries, k.dataset.address(), result.keys));
  }
  return result;
}

// The buckets of --relative-bias t5 end at the published distance.
void require_usual_distance(const ModelLayer& wanted) {
  constexpr Index usual = 128;
  const auto distance = read_model_config(wanted.config, wanted.model, wanted.layer).max_distance;
  if (distance.value_or(usual) == usual) return;
  throw Error(Failure::input,
              fmt::format("{} has a relative_attention_max_distance of {}, expected {}",
                          wanted.config, *distance, usual));
}

}  // namespace

ModelWeights model_weights(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted) {
  const ModelNames names = names_in(wanted);
  const bool fused = wanted.model == "gpt2";
  const Index parts = fused ? 3 : 1;
  std::vector<Matrix> matrices;
  for (const std::string& name : {names.q, names.k, names.v}) {
    const auto found = find_tensor(bundles, name + ".weight");
    if (!found) refuse_layer(bundles, wanted, name + ".weight");
    const auto part = static_cast<Index>(matrices.size());
    matrices.push_back(matrix_of(*found, fused, fused ? part : 0, parts));
  }
  std::optional<ArraySource> relative_bias;
  if (!names.relative_bias.empty()) {
    relative_bias = find_tensor(bundles, names.relative_bias);
    if (!relative_bias) refuse_layer(bundles, wanted, names.relative_bias);
    if (relative_bias->shape().size() != 2 || !is_floating(relative_bias->dtype())) {
      throw Error(Failure::input,
                  fmt::format("{} has shape {}, expected (buckets, heads)",
                              relative_bias->address(), to_string(relative_bias->shape())));
    }
  }
  refuse_unread_tensors(bundles, wanted);
  if (relative_bias) require_usual_distance(wanted);
  const ModelConfig config = wanted.heads || relative_bias
                                 ? ModelConfig()
                                 : read_model_config(wanted.config, wanted.model, wanted.layer);
  const Heads heads =
      heads_of(wanted, matrices[0], matrices[1],
               relative_bias ? std::optional(relative_bias->shape()[1]) : std::nullopt, config);
  if (relative_bias && relative_bias->shape()[1] != heads.queries) {
    throw Error(Failure::input,
                fmt::format("{} has {} heads, expected {}", relative_bias->address(),
                            relative_bias->shape()[1], heads.queries));
  }
  for (const Matrix& matrix : matrices) {
    if (matrix.in == matrices[0].in && (&matrix == &matrices[0] || matrix.out == matrices[1].out)) {
      continue;
    }
    throw Error(Failure::input,
                fmt::format("{} has shape {}, which does not match {} of {}",
                            matrix.dataset.address(), to_string(matrix.dataset.shape()),
                            matrices[0].dataset.address(), to_string(matrices[0].dataset.shape())));
  }
  std::vector<Produced> results;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string letter(1, "qkv"[i]);
    const Index count = i == 0 ? heads.queries : heads.keys;
    results.push_back(by_head("w" + letter, matrices[i], count));
    const std::string bias = (i == 0 ? names.q : i == 1 ? names.k : names.v) + ".bias";
    if (const auto found = find_tensor(bundles, bias)) {
      results.push_back(bias_by_head("b" + letter, *found, matrices[i], parts, count));
    }
  }
  if (relative_bias) {
    results.push_back(produced(*relative_bias, std::nullopt));
    results.back().name = "rel_bias";
    results.back().labels = {"bucket", "head"};
  }
  std::string rotary;
  if (!config.rotary.empty()) rotary = fmt::format("{} has {}", wanted.config, config.rotary);
  if (rotary.empty() && wanted.model == "llama") rotary = "models like llama have them";
  return {std::move(results), std::move(rotary)};
}

}  // namespace attn::tools
