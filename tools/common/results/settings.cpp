#include "common/results/settings.hpp"

#include <type_traits>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

const double* as_double(const Setting& setting, double& storage) {
  if (const auto* integer = std::get_if<std::int64_t>(&setting)) {
    storage = static_cast<double>(*integer);
    return &storage;
  }
  return std::get_if<double>(&setting);
}

}  // namespace

Setting setting_of(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found != settings.end() && !std::holds_alternative<std::monostate>(found->second)) {
    return found->second;
  }
  static const Settings usual = {
      {"attn_energy", "scaled-dot"},  {"attn_scale", 1.0},     {"attn_causal", "none"},
      {"attn_relative_bias", "none"}, {"attn_layout", "bhld"}, {"attn_source", "qk"},
  };
  const auto taken = usual.find(name);
  return taken == usual.end() ? Setting{} : taken->second;
}

bool same(const Setting& a, const Setting& b) {
  double of_a = 0;
  double of_b = 0;
  const double* const x = as_double(a, of_a);
  const double* const y = as_double(b, of_b);
  return x != nullptr && y != nullptr ? *x == *y : a == b;
}

Setting root_setting(const io::InputBundle& bundle, const std::string& name) {
  try {
    if (const auto text = bundle.text_attribute(name)) return *text;
    return {};
  } catch (const Error&) {
    // Not a string.
  }
  try {
    if (const auto number = bundle.number_attribute(name)) return *number;
  } catch (const Error&) {
    // Not a number either: code that needs it refuses it.
  }
  return {};
}

void write_settings(const std::vector<std::pair<std::string, Setting>>& settings,
                    io::OutputBundle& output) {
  for (const auto& [name, setting] : settings) {
    std::visit(
        [&output, &name = name](const auto& value) {
          using Value = std::decay_t<decltype(value)>;
          if constexpr (!std::is_same_v<Value, std::monostate>) output.attribute(name, value);
        },
        setting);
  }
}

}  // namespace attn::tools
