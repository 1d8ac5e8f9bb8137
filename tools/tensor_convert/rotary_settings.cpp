#include "tensor_convert/rotary_settings.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace attn::tools {
namespace {

using io::ConfigObject;

constexpr double most_channels = 1e6;  // far more than a head has

bool is_by_layer(const ConfigObject& parameters) {
  return parameters.find("sliding_attention") || parameters.find("full_attention");
}

// rope_parameters of newer files may differ by type of layer; older files have rope_scaling.
ConfigObject parameters_of(const ConfigObject& config, bool has_window) {
  const char* const key = config.find("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (config.find(key) == nullptr) return {ConfigObject::Json::object(), config.place()};
  const auto found = config.object(key);
  if (!found) config.place().refuse(fmt::format("a {} that is not an object", key));
  if (!is_by_layer(*found)) return *found;
  const char* const type = has_window ? "sliding_attention" : "full_attention";
  const auto own = found->object(type);
  if (!own) config.place().refuse(fmt::format("no object {} in {}", type, key));
  return *own;
}

std::string type_of(const ConfigObject& parameters) {
  // Phi-3 calls them yarn, too.
  for (const char* key : {"short_factor", "long_factor"}) {
    if (parameters.find(key) == nullptr) continue;
    parameters.place().refuse(
        fmt::format("rotary positions with {}, which depend on the length of the input", key));
  }
  for (const char* key : {"rope_type", "type"}) {
    const ConfigObject::Json* const found = parameters.find(key);
    if (found == nullptr) continue;
    const std::string type = found->is_string() ? found->get<std::string>() : found->dump();
    for (const char* known : {"default", "linear", "ntk", "yarn", "llama3"}) {
      if (type == known) return type;
    }
    const bool by_length = type == "dynamic" || type == "longrope" || type == "su";
    parameters.place().refuse(fmt::format("rotary positions of type {}, {}", type.substr(0, 40),
                                          by_length
                                              ? "which depend on the length of the input"
                                              : "expected default, linear, ntk, yarn or llama3"));
  }
  if (parameters.find("factor") != nullptr) {
    parameters.place().refuse("a factor of rotary positions without their type");
  }
  return "default";
}

// By how much YaRN sharpens the scores of a context `scale` times as long.
double sharpening(double scale, double weight) {
  return scale <= 1 ? 1 : 0.1 * weight * std::log(scale) + 1;
}

void take_yarn(RotarySettings& settings, const ConfigObject& parameters,
               const ConfigObject& config) {
  const auto longest = config.number("max_position_embeddings");
  const auto original = parameters.number("original_max_position_embeddings");
  const auto required = [&](const std::optional<double>& value, const char* key) {
    if (!value && !longest) settings.place.refuse(fmt::format("yarn without {}", key));
    return value;
  };
  settings.original =
      required(original, "original_max_position_embeddings").value_or(longest.value_or(0));
  settings.factor = required(parameters.number("factor"), "factor")
                        .value_or(longest.value_or(0) / settings.original);
  settings.high = parameters.number("beta_fast").value_or(32);
  settings.low = parameters.number("beta_slow").value_or(1);
  settings.attention_factor = parameters.number("attention_factor");
  if (!settings.attention_factor) {
    // 0 stands for absent.
    const double one = parameters.number("mscale", true).value_or(0);
    const double all = parameters.number("mscale_all_dim", true).value_or(0);
    settings.attention_factor =
        one > 0 && all > 0 ? sharpening(settings.factor, one) / sharpening(settings.factor, all)
                           : sharpening(settings.factor, 1);
  }
  const ConfigObject::Json* const truncates = parameters.find("truncate");
  settings.truncates = truncates == nullptr || *truncates != false;
  if (settings.theta == 1) settings.place.refuse("yarn with a rope_theta of 1");
}

void take_scaling(RotarySettings& settings, const ConfigObject& parameters,
                  const ConfigObject& config) {
  const std::string& type = settings.type;
  const auto required = [&](const char* key) {
    if (const auto value = parameters.number(key)) return *value;
    settings.place.refuse(fmt::format("rotary positions of type {} without {}", type, key));
  };
  if (type == "linear" || type == "ntk" || type == "llama3") settings.factor = required("factor");
  if (type == "yarn") take_yarn(settings, parameters, config);
  if (type != "llama3") return;
  settings.low = required("low_freq_factor");
  settings.high = required("high_freq_factor");
  settings.original = required("original_max_position_embeddings");
  if (settings.high <= settings.low) {
    settings.place.refuse("a high_freq_factor that is not above low_freq_factor");
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

std::optional<RotarySettings> rotary_settings(const ConfigObject& config, const ModelFamily& family,
                                              bool has_window) {
  if (!family.rotates || (family.rotates_windows_only && !has_window)) return std::nullopt;
  const ConfigObject parameters = parameters_of(config, has_window);
  const auto number = [&](const char* key) {
    const auto own = parameters.number(key);
    return own ? own : config.number(key);
  };
  const io::ConfigPlace& place = config.place();
  RotarySettings settings;
  settings.place = place;
  settings.type = type_of(parameters);
  if (parameters.find("mrope_section") != nullptr) {
    place.refuse("mrope_section: positions of images along several axes");
  }
  auto theta = number("rope_theta");
  if (!theta) theta = config.number("rotary_emb_base");
  settings.theta = theta.value_or(family.theta);
  if (settings.theta == 0) place.refuse("no rope_theta");
  if (config.number("rope_ratio").value_or(1) != 1) {
    place.refuse("a rope_ratio, which versions of chatglm apply in different ways");
  }
  settings.fraction = family.fraction;
  for (const char* key : {"rotary_pct", "rope_pct", "partial_rotary_factor"}) {
    settings.fraction = number(key).value_or(settings.fraction);
  }
  if (const auto channels = config.number("rotary_dim")) {
    settings.channels = static_cast<Index>(std::min(*channels, most_channels));
  }
  if (settings.fraction == 0 && !settings.channels) place.refuse("no rotary_dim");
  const auto by_layer = config.object("rope_parameters");
  if (has_window && family.windows_unscaled && !(by_layer && is_by_layer(*by_layer))) {
    settings.type = "default";
    if (family.window_theta > 0) {
      settings.theta = config.number("rope_local_base_freq").value_or(family.window_theta);
    }
  }
  take_scaling(settings, parameters, config);
  return settings;
}

std::vector<double> rotary_numbers(const RotarySettings& settings, Index head_size) {
  const Index channels = settings.channels.value_or(static_cast<Index>(
      std::min(static_cast<double>(head_size) * settings.fraction, most_channels)));
  if (channels < 2 || channels > head_size || channels % 2 != 0) {
    settings.place.refuse(
        fmt::format("rotary positions of {} channels, expected an even number of "
                    "the {} channels of a head",
                    channels, head_size));
  }
  const auto r = static_cast<double>(channels);
  double theta = settings.theta;
  if (settings.type == "ntk") {
    if (channels == 2) settings.place.refuse("rotary positions of type ntk for 2 channels");
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
