#include "tensor_convert/model_config.hpp"

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

std::optional<Index> positive(const nlohmann::json& config, const char* key,
                              const std::string& path) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  constexpr Index most = 1 << 20;
  if (!found->is_number_integer() || *found < 1 || *found > most) {
    refuse(path, fmt::format("has a {} that is not a positive integer", key));
  }
  return found->get<Index>();
}

bool is_set(const nlohmann::json& value) {
  return !value.is_null() && value != false && value != 0 && value != "";
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
    {"alibi", "--relative-bias alibi in place of"},
    {"use_bidirectional_attention", "--causal=none in place of", false, "llama"},
    {"is_causal", "--causal=none in place of", true, "llama"},
    {"scale_attn_weights", "--energy dot in place of", true},
    {"scale_attn_by_inverse_layer_idx"},
    {"is_decoder", "--causal in place of", false, "bert"},
};

/// Whether a window applies to this layer. Layers may differ.
bool has_window(const nlohmann::json& config, Index layer) {
  const auto used = config.find("use_sliding_window");
  if (used != config.end() && *used == false) return false;
  const auto types = config.find("layer_types");
  const auto at = static_cast<std::size_t>(layer);
  return types == config.end() || !types->is_array() || at >= types->size() ||
         (*types)[at] != "full_attention";
}

void refuse_changes(const nlohmann::json& config, const std::string& path, const std::string& model,
                    Index layer) {
  for (const Change& change : changes) {
    const auto found = config.find(change.key);
    if (found == config.end()) continue;
    const std::string key = change.key;
    if (change.when_false ? *found != false : !is_set(*found)) continue;
    if (*change.model != '\0' && model != change.model) continue;
    if (key == "sliding_window" && !has_window(config, layer)) continue;
    // The scale is then the usual one.
    if (key == "query_pre_attn_scalar" && config.value("head_dim", nlohmann::json()) == *found) {
      continue;
    }
    const std::string value = found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    std::string hint = unread_hint;
    if (*change.options != '\0') {
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

std::string rotary_member(const nlohmann::json& config) {
  for (const auto& [key, value] : config.items()) {
    const bool named =
        key.starts_with("rope_") || key.starts_with("rotary_") || key == "partial_rotary_factor";
    if (named && is_set(value)) return key;
  }
  return {};
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
  refuse_changes(config, path, model, layer);
  ModelConfig result;
  result.rotary = rotary_member(config);
  if (const auto type = config.find("model_type"); type != config.end() && type->is_string()) {
    result.model_type = type->get<std::string>();
  }
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
