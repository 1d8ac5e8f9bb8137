#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "attnkit/stopping.hpp"

namespace attn::tools {

/// What to do about an iteration that did not converge, after the words "not converged": ": the
/// error falls by a factor of 0.98 per iteration; at this rate --iterations 820 suffices; or try
/// --relax 1.8 or --anneal". `option` is the option for the number of iterations, after the name of
/// its tool if this is another tool. `others` are options that save iterations, or empty.
std::string convergence_words(const std::optional<Convergence>& convergence,
                              const std::string& option, const std::string& others = {});

/// The meaning of the two members, for the manual page.
inline constexpr const char* convergence_member =
    "if something did not converge: the factor by which the error fell per iteration, measured "
    "over the last iterations, and the total number of iterations that this factor predicts; null "
    "if the error does not fall";

/// Adds `rate` and `predicted_iterations` to a JSON object that has a status, if there is a
/// convergence to report; unknown values are null.
void add_convergence(const std::optional<Convergence>& convergence, nlohmann::ordered_json& json);

}  // namespace attn::tools
