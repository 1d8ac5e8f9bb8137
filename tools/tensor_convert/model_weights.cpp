#include "tensor_convert/model_weights.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "tensor/buffer.hpp"
#include "tensor_convert/model_config.hpp"
#include "tensor_convert/model_names.hpp"
#include "tensor_convert/model_norms.hpp"

namespace attn::tools {
namespace {

/// A stored matrix, and which of its columns or rows belong to one projection.
struct Matrix {
  ArraySource dataset;
  bool in_out = false;  ///< (in, out), else (out, in)
  Index in = 0;
  Index stored = 0;  ///< number of outputs of the stored matrix
  Index out = 0;     ///< those of the projection
  HeadPlaces places = {};
};

void require_matrix(const ArraySource& dataset) {
  if (dataset.shape().size() != 2 || !is_floating(dataset.dtype())) {
    throw Error(Failure::input,
                fmt::format("{} is {} of {}, expected a matrix of numbers", dataset.address(),
                            to_string(dataset.shape()), dataset.type()),
                dataset.dtype() == DType::other
                    ? "float8, float16, bfloat16, float32 and float64 are read, packed types not"
                    : "");
  }
  if (dataset.type() == "F8_E4M3" || dataset.type() == "F8_E5M2") {
    throw Error(Failure::input,
                fmt::format("{} is {}, and its file has no {}_scale_inv or {}_scale",
                            dataset.address(), dataset.type(), dataset.name(), dataset.name()),
                "name the index of the checkpoint if another part has it; if the numbers have no "
                "scale, convert the file to float32 first");
  }
}

Matrix matrix_of(const ArraySource& dataset, bool in_out) {
  const Index out = dataset.shape()[in_out ? 1 : 0];
  return {dataset, in_out, dataset.shape()[in_out ? 0 : 1], out, out};
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
  const Index d = matrix.places.size;
  const std::size_t size = size_of(matrix.dataset.dtype());
  const auto stored = std::make_shared<Buffer<char>>();
  const auto read = [=](const Shape& start, const Shape& count, void* out) {
    auto* to = static_cast<char*>(out);
    const Index block = count[1] * count[2];
    if (!matrix.in_out) stored->reserve(block * static_cast<Index>(size));
    for (Index h = 0; h < count[0]; ++h) {
      const Index at = matrix.places.at(start[0] + h) + start[2];
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
                      Index heads) {
  if (bias.shape() != Shape{matrix.stored} || !is_floating(bias.dtype())) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected ({})", bias.address(),
                                            to_string(bias.shape()), matrix.stored));
  }
  const Index d = matrix.places.size;
  const auto read = [bias, places = matrix.places,
                     size = static_cast<Index>(size_of(bias.dtype()))](
                        const Shape& start, const Shape& count, void* out) {
    for (Index h = 0; h < count[0]; ++h) {
      bias.read_stored({places.at(start[0] + h) + start[1]}, {count[1]},
                       static_cast<char*>(out) + h * count[1] * size);
    }
  };
  return {name, bias.dtype(), {heads, d}, {"head", "channel"}, bias.address(), read};
}

constexpr const char* numbers_hint =
    "give their numbers with --heads and --kv-heads; if config.json is of another model, "
    "--ignore-config";

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

[[noreturn]] void refuse_unknown_heads(const ArraySource& dataset, const ModelLayer& wanted) {
  std::error_code failed;
  const std::string& config = wanted.config;
  const std::string why = !std::filesystem::exists(config, failed) ? "there is no " + config
                          : wanted.ignores_config                  ? config + " is not read"
                                                                   : config + " does not say it";
  throw Error(Failure::usage,
              fmt::format("the number of heads of {} is unknown: its shapes do not determine it, "
                          "and {}",
                          dataset.address(), why),
              "give it with --heads");
}

Heads heads_of(const ModelLayer& wanted, const Matrix& q, const Matrix& k,
               const ModelConfig& config) {
  std::optional<Index> heads = config.heads;
  const std::optional<Index> kv_heads = config.kv_heads;
  if (!heads && config.head_size) heads = divided(q, *config.head_size);
  if (!heads && kv_heads) heads = divided(q, k.out / *kv_heads);
  if (!heads) refuse_unknown_heads(q.dataset, wanted);
  if (*heads < 1 || q.out % *heads != 0 || q.out == 0) {
    throw Error(Failure::input,
                fmt::format("{} has {} channels, which is not a multiple of {} heads",
                            q.dataset.address(), q.out, *heads));
  }
  if (const Index size = q.out / *heads; config.head_size.value_or(size) != size) {
    throw Error(Failure::input,
                fmt::format("{} has {} channels, expected {} heads of {} channels, as {} says",
                            q.dataset.address(), q.out, *heads, *config.head_size, wanted.config),
                numbers_hint);
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

/// The matrix that holds all three projections, and how.
struct Fused {
  Matrix matrix;
  Fusion fusion;
};

Fused fused_in(const ArraySource& dataset, Fusion fusion, const ModelConfig& config) {
  if (fusion != Fusion::c_attn) return {matrix_of(dataset, false), fusion};
  if (config.model_type == "gpt_bigcode") {
    return {matrix_of(dataset, false), config.shares_keys ? Fusion::blocks : Fusion::groups};
  }
  const Shape& shape = dataset.shape();
  const bool linear = config.model_type == "qwen" || shape[0] == 3 * shape[1];
  return {matrix_of(dataset, !linear), Fusion::blocks};
}

/// The heads of fused projections: what is not known follows from d = in / heads.
Heads heads_in(const ModelLayer& wanted, const Fused& fused, bool usual,
               const ModelConfig& config) {
  const Matrix& matrix = fused.matrix;
  const std::optional<Index> heads = config.heads;
  if (!heads) refuse_unknown_heads(matrix.dataset, wanted);
  Heads found{*heads, config.kv_heads.value_or(usual ? *heads : 0)};
  if (found.keys == 0) {
    const Index size = config.head_size.value_or(matrix.in / *heads);
    found.keys = size == 0 || matrix.stored % size != 0 ? 0 : (matrix.stored / size - *heads) / 2;
  }
  const Index all = found.queries + 2 * found.keys;
  if (found.keys < 1 || found.queries % found.keys != 0 || matrix.stored == 0 ||
      matrix.stored % all != 0 ||
      config.head_size.value_or(matrix.stored / all) != matrix.stored / all) {
    throw Error(
        Failure::input,
        fmt::format("{} has {} channels, which do not fit {} heads of queries{}{}",
                    matrix.dataset.address(), matrix.stored, found.queries,
                    found.keys < 1 ? "" : fmt::format(" and {} of keys and of values", found.keys),
                    config.head_size ? fmt::format(" of {} channels each", *config.head_size) : ""),
        numbers_hint);
  }
  return found;
}

/// The matrices of q, k and v, with the places of their heads.
struct Projections {
  std::vector<Matrix> matrices;
  Heads heads;
};

Projections split(const ModelLayer& wanted, const Fused& whole, Fusion named,
                  const ModelConfig& config) {
  const bool usual = named == Fusion::c_attn && whole.matrix.in_out;
  Projections found{{}, heads_in(wanted, whole, usual, config)};
  const Heads& heads = found.heads;
  const Index size = whole.matrix.stored / (heads.queries + 2 * heads.keys);
  for (const Index part : {0, 1, 2}) {
    found.matrices.push_back(whole.matrix);
    Matrix& matrix = found.matrices.back();
    matrix.out = (part == 0 ? heads.queries : heads.keys) * size;
    matrix.places = fused_places(whole.fusion, part, heads.queries, heads.keys, size);
  }
  return found;
}

Projections separate(const ModelLayer& wanted, const std::vector<ArraySource>& stored,
                     const ModelConfig& config) {
  Projections found;
  for (const ArraySource& dataset : stored) found.matrices.push_back(matrix_of(dataset, false));
  found.heads = heads_of(wanted, found.matrices[0], found.matrices[1], config);
  for (Matrix& matrix : found.matrices) {
    const Index count = &matrix == found.matrices.data() ? found.heads.queries : found.heads.keys;
    matrix.places = {0, matrix.out / count, count, 0};
  }
  return found;
}

// The buckets of --relative-bias t5 end at the published distance.
void require_usual_distance(const ModelConfig& config, const std::string& path) {
  constexpr Index usual = 128;
  if (config.max_distance.value_or(usual) == usual) return;
  throw Error(Failure::input,
              fmt::format("{} has a relative_attention_max_distance of {}, expected {}", path,
                          *config.max_distance, usual));
}

std::optional<ArraySource> relative_bias_in(const std::vector<io::InputBundle>& bundles,
                                            const ModelLayer& wanted, const std::string& name) {
  if (name.empty()) return std::nullopt;
  const auto found = find_tensor(bundles, name);
  if (!found) refuse_layer(bundles, wanted, name);
  if (found->shape().size() != 2 || !is_floating(found->dtype())) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected (buckets, heads)",
                                            found->address(), to_string(found->shape())));
  }
  return found;
}

// What config.json says, and the numbers of heads that are known better.
ModelConfig config_of(const ModelLayer& wanted, const std::optional<ArraySource>& relative_bias) {
  ModelConfig config;
  if (!wanted.ignores_config) {
    config = read_model_config(wanted.config, wanted.model, wanted.layer);
  }
  if (relative_bias) {
    require_usual_distance(config, wanted.config);
    config.heads = relative_bias->shape()[1];
  }
  if (wanted.heads) {
    const bool others = config.heads && config.heads != wanted.heads;
    if (others && !relative_bias) {
      config.other_heads = fmt::format("{} has {} heads", wanted.config, *config.heads);
      if (config.head_size) config.other_heads += fmt::format(" of {} channels", *config.head_size);
    }
    if (others) config.kv_heads = config.head_size = std::nullopt;
    config.heads = wanted.heads;
  }
  if (wanted.kv_heads) config.kv_heads = wanted.kv_heads;
  return config;
}

void require_same_sizes(const std::vector<Matrix>& matrices) {
  for (const Matrix& matrix : matrices) {
    if (matrix.in == matrices[0].in && (&matrix == &matrices[0] || matrix.out == matrices[1].out)) {
      continue;
    }
    throw Error(Failure::input,
                fmt::format("{} has shape {}, which does not match {} of {}",
                            matrix.dataset.address(), to_string(matrix.dataset.shape()),
                            matrices[0].dataset.address(), to_string(matrices[0].dataset.shape())));
  }
}

// What the family says without tensors: epsilon and rotary positions.
void add_settings(const ModelConfig& config, const std::string& path, Index head_size,
                  std::vector<Produced>& results) {
  if (config.has_norm) results.push_back(made_of("norm_epsilon", {}, {config.epsilon}, path));
  if (!config.rotary) return;
  std::vector<double> numbers = rotary_numbers(*config.rotary, head_size);
  const Index size = std::ssize(numbers);
  const bool has_factors = config.rotary->attention_factor.value_or(1) != 1;
  results.push_back(made_of(config.family->interleaved ? "rotary_interleaved" : "rotary",
                            has_factors ? Shape{2, size / 2} : Shape{size}, std::move(numbers),
                            path));
}

// Only GPT-2 and models like it have none. They name their weights c_attn.
std::string sign_of_rotary(const ModelLayer& wanted, const ModelNames& names) {
  if (wanted.model == "llama") return "models like llama have them";
  if (wanted.model != "gpt2" || names.fusion == Fusion::c_attn) return {};
  return "models with " + names.q + " have them";
}

/// The channels of a head, if each head has a norm of its own. Models of text and images leave what
/// is usual for their text part out of config.json.
std::optional<Index> size_of_norm(const std::vector<io::InputBundle>& bundles,
                                  const ModelNames& names, const ArraySource& q) {
  const auto norm = find_tensor(bundles, names.base + "q_norm.weight");
  if (!norm || norm->shape().size() != 1 || norm->shape()[0] >= q.shape()[0]) return std::nullopt;
  return norm->shape()[0];
}

}  // namespace

ModelWeights model_weights(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted) {
  const ModelNames names = names_in(bundles, wanted);
  const bool fused = names.fusion != Fusion::none;
  std::vector<ArraySource> stored;
  for (const std::string& name : {names.q, names.k, names.v}) {
    const auto found = find_tensor(bundles, name + ".weight");
    if (!found) refuse_layer(bundles, wanted, name + ".weight");
    require_matrix(*found);
    stored.push_back(*found);
  }
  const auto relative_bias = relative_bias_in(bundles, wanted, names.relative_bias);
  ModelConfig config = config_of(wanted, relative_bias);
  if (config.has_norm && !config.heads && !config.head_size) {
    config.head_size = size_of_norm(bundles, names, stored[0]);
  }
  const auto [matrices, heads] =
      fused ? split(wanted, fused_in(stored[0], names.fusion, config), names.fusion, config)
            : separate(wanted, stored, config);
  if (relative_bias && relative_bias->shape()[1] != heads.queries) {
    throw Error(Failure::input,
                fmt::format("{} has {} heads, expected {}", relative_bias->address(),
                            relative_bias->shape()[1], heads.queries));
  }
  require_same_sizes(matrices);
  std::vector<Produced> results;
  std::set<std::string> read;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string letter(1, "qkv"[i]);
    const Index count = i == 0 ? heads.queries : heads.keys;
    if (config.has_norm && i < 2) {
      for (Produced& norm : head_norm(bundles, names, config.family->norm, letter, count,
                                      matrices[i].places.size, read)) {
        results.push_back(std::move(norm));
      }
    }
    results.push_back(by_head("w" + letter, matrices[i], count));
    const std::string bias = (i == 0 ? names.q : i == 1 ? names.k : names.v) + ".bias";
    if (const auto found = find_tensor(bundles, bias)) {
      results.push_back(bias_by_head("b" + letter, *found, matrices[i], count));
    }
  }
  if (relative_bias) {
    results.push_back(produced(*relative_bias, std::nullopt));
    results.back().name = "rel_bias";
    results.back().labels = {"bucket", "head"};
  }
  refuse_unread_tensors(bundles, wanted, names, std::move(read));
  add_settings(config, wanted.config, matrices[0].places.size, results);
  std::string rotary = config.family == nullptr ? sign_of_rotary(wanted, names) : std::string();
  return {std::move(results), config.attributes, std::move(rotary), config.other_heads};
}

}  // namespace attn::tools
