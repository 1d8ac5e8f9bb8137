#include "common/heads/leak_warning.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "common/options/score_options.hpp"

namespace attn::tools {

void warn_of_leak(const std::vector<Scheme>& schemes, const AttentionInput& input,
                  cli::Report& report) {
  const bool by_window = input.options.window.right == Index{0};
  if (input.causal == Causal::none && !by_window) return;
  std::vector<std::string> leaking;
  for (const Scheme scheme : schemes) {
    const std::string name = scheme_name(scheme);
    const bool listed = std::find(leaking.begin(), leaking.end(), name) != leaking.end();
    if (!is_softmax(scheme) && !listed) leaking.push_back(name);
  }
  if (leaking.empty()) return;
  report.warn(fmt::format(
      "under {} each query depends on later ones through the column normalisation, even with a "
      "causal mask: fine for analysis, but a leak in an autoregressive model",
      fmt::join(leaking, ", ")));
}

}  // namespace attn::tools
