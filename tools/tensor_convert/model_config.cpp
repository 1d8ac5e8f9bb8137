#include "tensor_convert/model_config.hpp"

#include <cmath>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/text_input.hpp"
#include "io/config_object.hpp"

namespace attn::tools {
namespace {

using io::ConfigObject;

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
bool is_window_layer(const ConfigObject& config, const ModelFamily& family, Index layer) {
  if (family.windows == 0) return false;
  if (family.windows_late && !config.is_set("use_sliding_window")) return false;
  const nlohmann::json* const types = config.find("layer_types");
  if (types != nullptr && types->is_array()) {
    const auto at = static_cast<std::size_t>(layer);
    const nlohmann::json own = at < types->size() ? (*types)[at] : nlohmann::json();
    if (own == "full_attention" || own == "sliding_attention") return own == "sliding_attention";
    config.place().refuse(
        fmt::format("layer_types of {} for layer {}, expected full_attention or sliding_attention",
                    own.dump().substr(0, 40), layer));
  }
  if (family.windows_late) {
    constexpr Index usual = 28;
    return layer >= config.whole("max_window_layers", 0).value_or(usual);
  }
  const auto every = config.whole("sliding_window_pattern").value_or(family.windows);
  return every == 1 || (layer + 1) % every != 0;
}

/// The size of a family's windows, if it has one. A member that is null is none.
std::optional<Index> window_in(const ConfigObject& config, const ModelFamily& family) {
  if (config.contains("sliding_window")) return config.whole("sliding_window", 1, Index{1} << 40);
  return family.window == 0 ? std::nullopt : std::optional(family.window);
}

/// What a known family does to its scores, as options of the tools. Removes the members that the
/// family has.
void take_attributes(ConfigObject& config, const ModelFamily& family, bool window,
                     ModelConfig& result) {
  const auto take = [&](const char* key, double usual) {
    if (!config.contains(key)) return usual;
    const double value = config.number(key, true).value_or(0);
    config.erase(key);
    return value;
  };
  double scale = family.multiplier == 0 ? 0 : take("attention_multiplier", family.multiplier);
  double cap = 0;
  if (family.scalar != 0) {
    scale = 1 / std::sqrt(take("query_pre_attn_scalar", family.scalar));
    cap = take("attn_logit_softcapping", family.cap);
  }
  if (std::isinf(scale) || (family.multiplier != 0 && scale == 0)) {
    config.place().refuse("a scale of the scores that is 0 or null");
  }
  if (scale != 0) {
    result.attributes.emplace_back("attn_energy", std::string("dot"));
    result.attributes.emplace_back("attn_scale", scale);
  }
  if (cap != 0) result.attributes.emplace_back("attn_softcap", cap);
  if (family.windows == 0) return;
  const std::optional<Index> size = window_in(config, family);
  if (window && size) result.attributes.emplace_back("attn_window", std::int64_t{*size});
  config.erase("sliding_window");
}

std::string rotary_member(const ConfigObject& config) {
  for (const auto& [key, value] : config.json().items()) {
    const bool named =
        key.starts_with("rope_") || key.starts_with("rotary_") || key == "partial_rotary_factor";
    if (named && config.is_set(key.c_str())) return key;
  }
  return {};
}

/// Norm, rotary positions and scores of a decoder of a known family.
void take_family(ConfigObject& config, const std::string& model, Index layer, ModelConfig& result) {
  result.family = family_called(result.model_type);
  if (result.family == nullptr) {
    const std::string rotary = rotary_member(config);
    if (result.model_type.empty() && rotary.empty()) return;
    if (result.model_type == "bloom") return;  // refused with a hint
    const std::string what = result.model_type.empty()
                                 ? fmt::format("{} but no model_type", rotary)
                                 : fmt::format("model_type {}", result.model_type.substr(0, 40));
    config.place().refuse(fmt::format(
        "{}; how such a model makes queries and keys is not known to --model {}", what, model));
  }
  const ModelFamily& family = *result.family;
  const bool window = is_window_layer(config, family, layer);
  result.rotary = rotary_settings(config, family, window);
  result.has_norm = family.norm != HeadNormKind::none &&
                    (family.norm_if == nullptr || config.is_set(family.norm_if));
  if (family.norm_if != nullptr) config.erase(family.norm_if);
  const char* const key = family.norm == HeadNormKind::layer ? "layer_norm_eps" : "rms_norm_eps";
  if (result.has_norm) result.epsilon = config.number(key, true).value_or(family.epsilon);
  take_attributes(config, family, window, result);
}

void refuse_changes(const ConfigObject& config, const std::string& model) {
  const std::string type = config.text("model_type");
  const auto refuse = [&](const std::string& what, const std::string& hint = {}) {
    io::ConfigPlace place = config.place();
    if (!hint.empty()) place.hint += "; the tools then need " + hint;
    place.refuse(fmt::format("{}, which --model {} does not compute", what, model));
  };
  for (const Change& change : changes) {
    const std::string key = change.key;
    if (!config.contains(change.key)) continue;
    const nlohmann::json& found = config.json()[key];
    if (change.when_false ? found != false : !config.is_set(change.key)) continue;
    if (*change.model != '\0' && model != change.model) continue;
    // A window that is switched off changes nothing.
    if (key == "sliding_window" && config.contains("use_sliding_window") &&
        !config.is_set("use_sliding_window")) {
      continue;
    }
    const std::string value =
        found.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40);
    // Falcon divides its biases of positions by the root of d, too.
    const bool as_published = *change.options != '\0' && (key != "alibi" || type != "falcon");
    refuse(fmt::format("{} {}", key, value),
           as_published ? fmt::format("{} {}", change.options, value) : "");
  }
  if (type == "bloom") refuse("model_type bloom with biases of positions", "--relative-bias alibi");
  const std::string positions = config.text("position_embedding_type");
  if (!positions.empty() && positions != "absolute" && positions != "rotary" &&
      positions != "rope") {
    refuse("position_embedding_type " + positions.substr(0, 40));
  }
}

/// The number of heads of keys, which models name in several ways.
std::optional<Index> kv_heads_in(const ConfigObject& config, const std::string& type) {
  const auto says = [&](const char* key, bool otherwise) {
    return config.contains(key) ? config.is_set(key) : otherwise;
  };
  if (says("new_decoder_architecture", false)) {
    const auto heads = config.whole("num_kv_heads");
    return heads ? heads : config.whole("n_head_kv");
  }
  // Files leave out what is usual for the type.
  const bool shared = type == "falcon" || type == "gpt_bigcode";
  if (says("multi_query", shared)) return 1;
  if (says("multi_query_attention", false)) return config.whole("multi_query_group_num");
  if (shared) return std::nullopt;
  return config.whole("num_key_value_heads");
}

std::string text_of(const io::ConfigPlace& place) {
  try {
    return read_text(place.path, ConfigObject::most_bytes, "a JSON object");
  } catch (const Error& error) {
    throw Error(error.failure(), error.what(), place.hint);
  }
}

}  // namespace

ModelConfig read_model_config(const std::string& path, const std::string& model, Index layer) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return {};
  const io::ConfigPlace place{path, "with --ignore-config it is not read"};
  ConfigObject config(text_of(place), place);
  // Models of text and images describe the text part separately.
  if (auto text = config.object("text_config")) config = std::move(*text);
  ModelConfig result;
  result.model_type = config.text("model_type");
  if (model == "gpt2" || model == "llama") take_family(config, model, layer, result);
  refuse_changes(config, model);
  if (model == "t5") {
    result.heads = config.whole("num_heads");
    result.head_size = config.whole("d_kv");
    result.max_distance = config.whole("relative_attention_max_distance");
  } else {
    result.heads = config.whole("num_attention_heads");
    if (!result.heads) result.heads = config.whole("n_head");
    if (model == "bert") return result;
    result.kv_heads = kv_heads_in(config, result.model_type);
    result.shares_keys = result.kv_heads == 1;
    result.head_size = config.whole("head_dim");
    if (!result.head_size) result.head_size = config.whole("kv_channels");
  }
  return result;
}

}  // namespace attn::tools
