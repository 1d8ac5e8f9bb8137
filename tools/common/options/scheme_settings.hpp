#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/heads/attention_input.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {

/// Adds --tolerance, which ends the iterations of the scheme sinkhorn.
void declare_tolerance(cli::Declaration& declaration);

/// u per head: --hybrid, else with `recorded` the attribute attn_hybrid, else the dataset hybrid.
/// Throws Error(usage) if there is none, Error(input) if a value lies outside [0, 1].
std::vector<double> hybrid_per_head(const cli::Arguments& arguments, const io::InputBundle& bundle,
                                    const AttentionInput& input, bool recorded);

/// Whether this scheme of attn-compute repeats another scheme on queries that move: em, mean-shift.
bool is_repeated(const std::string& scheme);

/// A property of schemes on which options depend, as &SchemeDescription::is_mixture.
using SchemeProperty = bool (SchemeDescription::*)() const;

bool any_has(const std::vector<Scheme>& schemes, SchemeProperty property);

/// Throws Error(usage) if the option is given but none of the schemes in use has the property.
void require_effect_on(const cli::Arguments& arguments, const std::string& option,
                       SchemeProperty property, const std::vector<Scheme>& used);

}  // namespace attn::tools
