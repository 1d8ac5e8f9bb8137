#include "tensor_convert/rotary_settings.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

using nlohmann::json;

constexpr double most_channels = 1e6;  // far more than a head has

[[noreturn]] void refuse_rotary(const std::string& path, const std::string& what) {
  throw Error(Failure::input, path + " has " + what, "with --heads it is not read");
}

const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// A positive number of the first object that has the member.
std::optional<double> number(const std::vector<const json*>& objects, const char* key,
                             const std::string& path) {
  for (const json* object : objects) {
    const json* const found = member(*object, key);
    if (found == nullptr) continue;
    const double value = found->is_number() ? found->get<double>() : 0;
    if (value > 0 && std::isfinite(value)) return value;
    refuse_rotary(path, fmt::format("a {} that is not a positive number", key));
  }
  return std::nullopt;
}

double required(const std::vector<const json*>& objects, const char* key, const std::string& path,
                const std::string& type) {
  if (const auto value = number(objects, key, path)) return *value;
  refuse_rotary(path, fmt::format("rotary positions of type {} without {}", type, key));
}

// rope_parameters of newer files may differ by type of layer; older files have rope_scaling.
const json& parameters_of(const json& config, const std::string& path, bool has_window) {
  static const json none = json::object();
  const char* const key = member(config, "rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json* const found = member(config, key);
  if (found == nullptr) return none;
  if (!found->is_object()) refuse_rotary(path, fmt::format("a {} that is not an object", key));
  const bool by_layer = member(*found, "sliding_attention") || member(*found, "full_attention");
  if (!by_layer) return *found;
  const char* const type = has_window ? "sliding_attention" : "full_attention";
  const json* const own = member(*found, type);
  if (own == nullptr || !own->is_object()) {
    refuse_rotary(path, fmt::format("no object {} in {}", type, key));
  }
  return *own;
}

std::string type_of(const json& parameters, const std::string& path) {
  // Phi-3 calls them yarn, too.
  for (const char* key : {"short_factor", "long_factor"}) {
    if (member(parameters, key) == nullptr) continue;
    refuse_rotary(path, fmt::format("rotary positions with {}, which depend on the length of the "
                                    "input",
                                    key));
  }
  for (const char* key : {"rope_type", "type"}) {
    const json* const found = member(parameters, key);
    if (found == nullptr) continue;
    const std::string type = found->is_string() ? found->get<std::string>() : found->dump();
    for (const char* known : {"default", "linear", "ntk", "yarn", "llama3"}) {
      if (type == known) return type;
    }
    const bool by_length = type == "dynamic" || type == "longrope" || type == "su";
    refuse_rotary(path, fmt::format("rotary positions of type {}, {}", type.substr(0, 40),
                                    by_length ? "which depend on the length of the input"
                                              : "expected default, linear, ntk, yarn or llama3"));
  }
  if (member(parameters, "factor") != nullptr) {
    refuse_rotary(path, "a factor of rotary positions without their type");
  }
  return "default";
}

// By how much YaRN sharpens the scores of a context `scale` times as long.
double sharpening(double scale, double weight) {
  return scale <= 1 ? 1 : 0.1 * weight * std::log(scale) + 1;
}

void take_yarn(RotarySettings& settings, const json& parameters, const json& config) {
  const std::vector<const json*> own = {&parameters};
  const std::string& path = settings.path;
  const auto longest = number({&config}, "max_position_embeddings", path);
  const auto original = number(own, "original_max_position_embeddings", path);
  if (!original && !longest) refuse_rotary(path, "yarn without original_max_position_embeddings");
  settings.original = original.value_or(longest.value_or(0));
  const auto factor = number(own, "factor", path);
  if (!factor && !longest) refuse_rotary(path, "yarn without factor");
  settings.factor = factor.value_or(longest.value_or(0) / settings.original);
  settings.high = number(own, "beta_fast", path).value_or(32);
  settings.low = number(own, "beta_slow", path).value_or(1);
  settings.attention_factor = number(own, "attention_factor", path);
  if (!settings.attention_factor) {
    // 0 stands for absent.
    const auto weight = [&](const char* key) {
      const json* const found = member(parameters, key);
      return found == nullptr || *found == 0 ? 0 : number(own, key, path).value_or(0);
    };
    const double one = weight("mscale");
    const double all = weight("mscale_all_dim");
    settings.attention_factor =
        one > 0 && all > 0 ? sharpening(settings.factor, one) / sharpening(settings.factor, all)
                           : sharpening(settings.factor, 1);
  }
  const json* const truncates = member(parameters, "truncate");
  settings.truncates = truncates == nullptr || *truncates != false;
  if (settings.theta == 1) refuse_rotary(path, "yarn with a rope_theta of 1");
}

void take_scaling(RotarySettings& settings, const json& parameters, const json& config) {
  const std::vector<const json*> own = {&parameters};
  const std::string& type = settings.type;
  if (type == "linear" || type == "ntk" || type == "llama3") {
    settings.factor = required(own, "factor", settings.path, type);
  }
  if (type == "yarn") take_yarn(settings, parameters, config);
  if (type != "llama3") return;
  settings.low = required(own, "low_freq_factor", settings.path, type);
  settings.high = required(own, "high_freq_factor", settings.path, type);
  settings.original = required(own, "original_max_position_embeddings", settings.path, type);
  if (settings.high <= settings.low) {
    refuse_rotary(settings.path, "a high_freq_factor that is not above low_freq_factor");
  }
}

// γ of each pair.
std::vector<double> kept_by_yarn(const RotarySettings& settings, Index channels) {
  const auto pair_with = [&](double turns) {
    return static_cast<double>(channels) *
           std::log(settings.original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(settings.theta));
  };
  double low = pair_with(settings.high);
  double high = pair_with(settings.low);
  if (settings.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(channels - 1));
  if (low == high) high += 0.001;
  std::vector<double> kept;
  for (Index i = 0; i < channels / 2; ++i) {
    kept.push_back(1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0));
  }
  return kept;
}

double scaled_by_llama3(const RotarySettings& settings, double angle) {
  const double turns = settings.original * angle / (2 * std::numbers::pi);
  if (turns > settings.high) return angle;
  if (turns < settings.low) return angle / settings.factor;
  const double kept = (turns - settings.low) / (settings.high - settings.low);
  return (1 - kept) * angle / settings.factor + kept * angle;
}

}  // namespace

std::optional<RotarySettings> rotary_settings(const json& config, const std::string& path,
                                              const ModelFamily& family, bool has_window) {
  if (!family.rotates || (family.rotates_windows_only && !has_window)) return std::nullopt;
  const json& parameters = parameters_of(config, path, has_window);
  const std::vector<const json*> both = {&parameters, &config};
  RotarySettings settings;
  settings.path = path;
  settings.type = type_of(parameters, path);
  if (member(parameters, "mrope_section") != nullptr) {
    refuse_rotary(path, "mrope_section: positions of images along several axes");
  }
  auto theta = number(both, "rope_theta", path);
  if (!theta) theta = number({&config}, "rotary_emb_base", path);
  settings.theta = theta.value_or(family.theta);
  if (settings.theta == 0) refuse_rotary(path, "no rope_theta");
  if (number({&config}, "rope_ratio", path).value_or(1) != 1) {
    refuse_rotary(path, "a rope_ratio, which versions of chatglm apply in different ways");
  }
  settings.fraction = family.fraction;
  for (const char* key : {"rotary_pct", "rope_pct", "partial_rotary_factor"}) {
    settings.fraction = number(both, key, path).value_or(settings.fraction);
  }
  if (const auto channels = number({&config}, "rotary_dim", path)) {
    settings.channels = static_cast<Index>(std::min(*channels, most_channels));
  }
  if (settings.fraction == 0 && !settings.channels) refuse_rotary(path, "no rotary_dim");
  const bool by_layer = member(config, "rope_parameters") != nullptr &&
                        &parameters != member(config, "rope_parameters");
  if (has_window && family.windows_unscaled && !by_layer) {
    settings.type = "default";
    if (family.window_theta > 0) {
      settings.theta =
          number({&config}, "rope_local_base_freq", path).value_or(family.window_theta);
    }
  }
  take_scaling(settings, parameters, config);
  return settings;
}

std::vector<double> rotary_numbers(const RotarySettings& settings, Index head_size) {
  const Index channels = settings.channels.value_or(static_cast<Index>(
      std::min(static_cast<double>(head_size) * settings.fraction, most_channels)));
  if (channels < 2 || channels > head_size || channels % 2 != 0) {
    refuse_rotary(settings.path,
                  fmt::format("rotary positions of {} channels, expected an even number of "
                              "the {} channels of a head",
                              channels, head_size));
  }
  const auto r = static_cast<double>(channels);
  double theta = settings.theta;
  if (settings.type == "ntk") {
    if (channels == 2) refuse_rotary(settings.path, "rotary positions of type ntk for 2 channels");
    theta *= std::pow(settings.factor, r / (r - 2));
  }
  const std::vector<double> kept =
      settings.type == "yarn" ? kept_by_yarn(settings, channels) : std::vector<double>();
  std::vector<double> numbers;
  for (Index i = 0; i < channels / 2; ++i) {
    double angle = std::pow(theta, -2 * static_cast<double>(i) / r);
    if (settings.type == "linear") angle /= settings.factor;
    if (settings.type == "llama3") angle = scaled_by_llama3(settings, angle);
    if (!kept.empty()) {
      const double own = kept[static_cast<std::size_t>(i)];
      angle = angle / settings.factor * (1 - own) + angle * own;
    }
    numbers.push_back(angle);
  }
  const double factor = settings.attention_factor.value_or(1);
  if (factor != 1) numbers.resize(numbers.size() * 2, factor);
  return numbers;
}

}  // namespace attn::tools
