#include "tensor_convert/model_config.hpp"

#include <cmath>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/frame/text_input.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;
constexpr int most_depth = 64;

constexpr const char* unread_hint = "with --heads it is not read";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Failure::input, path + " " + why, unread_hint);
}

std::optional<Index> whole(const nlohmann::json& config, const char* key, const std::string& path,
                           Index least, Index most) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (!found->is_number_integer() || *found < least || *found > most) {
    refuse(path, fmt::format("has a {} that is not an integer in [{}, {}]", key, least, most));
  }
  return found->get<Index>();
}

std::optional<Index> positive(const nlohmann::json& config, const char* key,
                              const std::string& path) {
  return whole(config, key, path, 1, 1 << 20);
}

bool is_set(const nlohmann::json& value) {
  return !value.is_null() && value != false && value != 0 && value != "";
}

bool is_set(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && is_set(*found);
}

/// A member that changes the scores, and the option that then computes them.
struct Change {
  const char* key;
  const char* options = "";
  bool when_false = false;  ///< the member changes them if it is false
  const char* model = "";   ///< for this model only
};

constexpr Change changes[] = {
    {"attn_logit_softcapping", "--softcap"},
    {"attention_multiplier", "--energy dot --scale"},
    {"sliding_window", "--window"},
    {"query_pre_attn_scalar", "--energy dot --scale 1/sqrt of"},
    {"attention_chunk_size"},
    {"attn_temperature_tuning"},
    {"clip_qkv"},
    {"use_qk_norm"},
    {"qk_layernorm"},
    {"use_dynamic_ntk"},
    {"use_logn_attn"},
    {"position_encoding_2d"},
    {"alibi", "--relative-bias alibi in place of"},
    {"use_bidirectional_attention", "--causal=none in place of", false, "llama"},
    {"is_causal", "--causal=none in place of", true, "llama"},
    {"scale_attn_weights", "--energy dot in place of", true},
    {"scale_attn_by_inverse_layer_idx"},
    {"is_decoder", "--causal in place of", false, "bert"},
};

/// Whether the layer is one of those with a window.
bool is_window_layer(const nlohmann::json& config, const ModelFamily& family,
                     const std::string& path, Index layer) {
  if (family.windows == 0) return false;
  if (family.windows_late && !is_set(config, "use_sliding_window")) return false;
  const auto types = config.find("layer_types");
  if (types != config.end() && types->is_array()) {
    const auto at = static_cast<std::size_t>(layer);
    const nlohmann::json own = at < types->size() ? (*types)[at] : nlohmann::json();
    if (own == "full_attention" || own == "sliding_attention") return own == "sliding_attention";
    refuse(path, fmt::format("has layer_types of {} for layer {}, expected full_attention or "
                             "sliding_attention",
                             own.dump().substr(0, 40), layer));
  }
  if (family.windows_late) {
    constexpr Index usual = 28;
    return layer >= whole(config, "max_window_layers", path, 0, 1 << 20).value_or(usual);
  }
  const auto every = positive(config, "sliding_window_pattern", path).value_or(family.windows);
  return every == 1 || (layer + 1) % every != 0;
}

/// The size of a family's windows, if it has one. A member that is null is none.
std::optional<Index> window_in(const nlohmann::json& config, const ModelFamily& family,
                               const std::string& path) {
  if (config.contains("sliding_window")) {
    return whole(config, "sliding_window", path, 1, Index{1} << 40);
  }
  return family.window == 0 ? std::nullopt : std::optional(family.window);
}

/// What a known family does to its scores, as options of the tools. Removes the members that the
/// family has.
void take_attributes(nlohmann::json& config, const std::string& path, const ModelFamily& family,
                     bool window, ModelConfig& result) {
  const auto take = [&](const char* key, double usual) {
    const auto found = config.find(key);
    if (found == config.end()) return usual;
    const double value = found->is_number() ? found->get<double>() : 0;
    if (is_set(*found) && !(value > 0 && std::isfinite(value))) {
      refuse(path, fmt::format("has a {} that is not a positive number", key));
    }
    config.erase(found);
    return value;
  };
  double scale = family.multiplier == 0 ? 0 : take("attention_multiplier", family.multiplier);
  double cap = 0;
  if (family.scalar != 0) {
    scale = 1 / std::sqrt(take("query_pre_attn_scalar", family.scalar));
    cap = take("attn_logit_softcapping", family.cap);
  }
  if (std::isinf(scale) || (family.multiplier != 0 && scale == 0)) {
    refuse(path, "has a scale of the scores that is 0 or null");
  }
  if (scale != 0) {
    result.attributes.emplace_back("attn_energy", std::string("dot"));
    result.attributes.emplace_back("attn_scale", scale);
  }
  if (cap != 0) result.attributes.emplace_back("attn_softcap", cap);
  if (family.windows == 0) return;
  const std::optional<Index> size = window_in(config, family, path);
  if (window && size) result.attributes.emplace_back("attn_window", std::int64_t{*size});
  config.erase("sliding_window");
}

std::string rotary_member(const nlohmann::json& config) {
  for (const auto& [key, value] : config.items()) {
    const bool named =
        key.starts_with("rope_") || key.starts_with("rotary_") || key == "partial_rotary_factor";
    if (named && is_set(value)) return key;
  }
  return {};
}

/// Norm, rotary positions and scores of a decoder of a known family.
void take_family(nlohmann::json& config, const std::string& path, const std::string& model,
                 Index layer, ModelConfig& result) {
  result.family = family_called(result.model_type);
  if (result.family == nullptr) {
    const std::string rotary = rotary_member(config);
    if (result.model_type.empty() && rotary.empty()) return;
    if (result.model_type == "bloom") return;  // refused with a hint
    const std::string what = result.model_type.empty()
                                 ? fmt::format("{} but no model_type", rotary)
                                 : fmt::format("model_type {}", result.model_type.substr(0, 40));
    refuse(path, fmt::format("has {}; how such a model makes queries and keys is not known to "
                             "--model {}",
                             what, model));
  }
  const ModelFamily& family = *result.family;
  const bool window = is_window_layer(config, family, path, layer);
  result.rotary = rotary_settings(config, path, family, window);
  result.has_norm = family.norm != HeadNormKind::none &&
                    (family.norm_if == nullptr || is_set(config, family.norm_if));
  if (family.norm_if != nullptr) config.erase(family.norm_if);
  result.epsilon = family.epsilon;
  const char* const key = family.norm == HeadNormKind::layer ? "layer_norm_eps" : "rms_norm_eps";
  const auto found = config.find(key);
  if (result.has_norm && found != config.end() && !found->is_null()) {
    result.epsilon = found->is_number() ? found->get<double>() : -1;
    if (!(result.epsilon >= 0)) refuse(path, fmt::format("has a {} that is not a number", key));
  }
  take_attributes(config, path, family, window, result);
}

void refuse_changes(const nlohmann::json& config, const std::string& path,
                    const std::string& model) {
  for (const Change& change : changes) {
    const auto found = config.find(change.key);
    if (found == config.end()) continue;
    const std::string key = change.key;
    if (change.when_false ? *found != false : !is_set(*found)) continue;
    if (*change.model != '\0' && model != change.model) continue;
    // A window that is switched off changes nothing.
    if (key == "sliding_window" && config.contains("use_sliding_window") &&
        !is_set(config, "use_sliding_window")) {
      continue;
    }
    const std::string value = found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    std::string hint = unread_hint;
    // Falcon divides its biases of positions by the root of d, too.
    const bool as_published = key != "alibi" || config.value("model_type", "") != "falcon";
    if (*change.options != '\0' && as_published) {
      hint += fmt::format("; the tools then need {} {}", change.options, value.substr(0, 40));
    }
    throw Error(Failure::input,
                fmt::format("{} has {} {}, which --model {} does not compute", path, key,
                            value.substr(0, 40), model),
                hint);
  }
  if (config.value("model_type", nlohmann::json()) == "bloom") {
    throw Error(
        Failure::input,
        fmt::format("{} has model_type bloom, whose biases of positions --model {} does not "
                    "compute",
                    path, model),
        fmt::format("{}; the tools then need --relative-bias alibi", unread_hint));
  }
  const auto positions = config.find("position_embedding_type");
  const bool other = positions != config.end() && positions->is_string() &&
                     *positions != "absolute" && *positions != "rotary" && *positions != "rope";
  if (!other) return;
  throw Error(Failure::input,
              fmt::format("{} has position_embedding_type {}, which --model {} does not compute",
                          path, positions->get<std::string>().substr(0, 40), model),
              unread_hint);
}

nlohmann::json read_object(const std::string& path) {
  const std::string text = read_text(path, most_bytes, "a JSON object");
  const auto shallow = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > most_depth) refuse(path, "is nested too deeply");
    return true;
  };
  nlohmann::json object = nlohmann::json::parse(text, shallow, false);
  if (!object.is_object()) refuse(path, "is not a JSON object");
  return object;
}

/// The number of heads of keys, which models name in several ways.
std::optional<Index> kv_heads_in(const nlohmann::json& config, const std::string& type,
                                 const std::string& path) {
  const auto says = [&](const char* key, bool otherwise) {
    const auto found = config.find(key);
    return found == config.end() ? otherwise : is_set(*found);
  };
  if (says("new_decoder_architecture", false)) {
    const auto heads = positive(config, "num_kv_heads", path);
    return heads ? heads : positive(config, "n_head_kv", path);
  }
  // Files leave out what is usual for the type.
  const bool shared = type == "falcon" || type == "gpt_bigcode";
  if (says("multi_query", shared)) return 1;
  if (says("multi_query_attention", false)) return positive(config, "multi_query_group_num", path);
  if (shared) return std::nullopt;
  return positive(config, "num_key_value_heads", path);
}

}  // namespace

ModelConfig read_model_config(const std::string& path, const std::string& model, Index layer) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return {};
  nlohmann::json config = read_object(path);
  // Models of text and images describe the text part separately.
  const auto text = config.find("text_config");
  if (text != config.end() && text->is_object()) config = nlohmann::json(*text);
  ModelConfig result;
  if (const auto type = config.find("model_type"); type != config.end() && type->is_string()) {
    result.model_type = type->get<std::string>();
  }
  if (model == "gpt2" || model == "llama") take_family(config, path, model, layer, result);
  refuse_changes(config, path, model);
  if (model == "t5") {
    result.heads = positive(config, "num_heads", path);
    result.head_size = positive(config, "d_kv", path);
    result.max_distance = positive(config, "relative_attention_max_distance", path);
  } else {
    result.heads = positive(config, "num_attention_heads", path);
    if (!result.heads) result.heads = positive(config, "n_head", path);
    if (model == "bert") return result;
    result.kv_heads = kv_heads_in(config, result.model_type, path);
    result.head_size = positive(config, "head_dim", path);
    if (!result.head_size) result.head_size = positive(config, "kv_channels", path);
  }
  return result;
}

}  // namespace attn::tools
