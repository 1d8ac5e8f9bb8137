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

/// One value of a setting; monostate: it is absent.
using Setting = std::variant<std::monostate, std::int64_t, double, std::string>;

/// How something was made, by name: root attributes ("attn_scale"), and options that leave no
/// attribute behind ("window").
using Settings = std::map<std::string, Setting>;

/// Of `settings`, with what readers take an absent attribute for: a scale of 1, no causal mask.
Setting setting_of(const Settings& settings, const std::string& name);

/// Whether both say the same; an integer equals a floating-point number of its value.
bool same(const Setting& a, const Setting& b);

/// The root's attribute as a setting; absent where there is none that is one number or one text.
Setting root_setting(const io::InputBundle& bundle, const std::string& name);

/// Writes them as root attributes, in this order.
void write_settings(const std::vector<std::pair<std::string, Setting>>& settings,
                    io::OutputBundle& output);

}  // namespace attn::tools
