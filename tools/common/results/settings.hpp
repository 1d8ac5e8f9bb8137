#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// One value of a setting; monostate if it is absent.
using Setting = std::variant<std::monostate, std::int64_t, double, std::string>;

/// The settings of a result by name: root attributes ("attn_scale"), and options that are not
/// recorded as attributes ("window").
using Settings = std::map<std::string, Setting>;

/// The value of a setting; if absent, the default that readers assume: a scale of 1, no causal
/// mask.
Setting setting_of(const Settings& settings, const std::string& name);

/// Whether both are equal; an integer equals a floating-point number of the same value.
bool same(const Setting& a, const Setting& b);

/// The root's attribute as a setting; absent unless it is one number or one string.
Setting root_setting(const io::InputBundle& bundle, const std::string& name);

/// Writes the settings as root attributes, in this order.
void write_settings(const std::vector<std::pair<std::string, Setting>>& settings,
                    io::OutputBundle& output);

}  // namespace attn::tools
