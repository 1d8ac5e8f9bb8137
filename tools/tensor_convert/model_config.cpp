#include "tensor_convert/model_config.hpp"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/text_input.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;
constexpr int most_depth = 64;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Failure::input, path + " " + why, "with --heads it is not read");
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

}  // namespace

ModelConfig read_model_config(const std::string& path, const std::string& model) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return {};
  const std::string text = read_text(path, most_bytes, "a config.json");
  const auto shallow = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > most_depth) refuse(path, "is nested too deeply");
    return true;
  };
  const nlohmann::json config = nlohmann::json::parse(text, shallow, false);
  if (!config.is_object()) refuse(path, "is not a JSON object");
  ModelConfig result;
  if (model == "gpt2") {
    result.heads = positive(config, "n_head", path);
  } else if (model == "t5") {
    result.heads = positive(config, "num_heads", path);
    result.head_size = positive(config, "d_kv", path);
    result.max_distance = positive(config, "relative_attention_max_distance", path);
  } else {
    result.heads = positive(config, "num_attention_heads", path);
    if (model == "llama") {
      result.kv_heads = positive(config, "num_key_value_heads", path);
      result.head_size = positive(config, "head_dim", path);
    }
  }
  return result;
}

}  // namespace attn::tools
