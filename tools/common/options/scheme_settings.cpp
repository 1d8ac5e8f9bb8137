#include "common/options/scheme_settings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {

void declare_tolerance(cli::Declaration& declaration) {
  declaration
      .number("tolerance", "E",
              "Stops sinkhorn when the L1 error of the column sums, relative to their total, is at "
              "most E.",
              {0, 1, true, false})
      .default_words(
          "1e-6 in float32, 1e-10 in float64; no tolerance if only --iterations is given");
}

std::vector<double> hybrid_per_head(const cli::Arguments& arguments, const io::InputBundle& bundle,
                                    const AttentionInput& input, bool recorded) {
  auto given = arguments.number("hybrid");
  const bool named =
      std::any_of(arguments.named_inputs.begin(), arguments.named_inputs.end(),
                  [](const auto& input_pair) { return input_pair.first == "hybrid"; });
  if (!given && recorded && !named) {
    given = bundle.number_attribute("attn_hybrid");
    if (given && !(*given >= 0 && *given <= 1)) {
      throw Error(Failure::input,
                  fmt::format("{}: attribute attn_hybrid is {}, expected a number in [0, 1]",
                              bundle.description(), *given));
    }
  }
  if (given) return std::vector<double>(static_cast<std::size_t>(input.problems), *given);
  if (bundle.has("hybrid")) {
    return numbers_per_problem(bundle.dataset("hybrid"), input.leading, 0, 1);
  }
  throw Error(Failure::usage, "hnas requires --hybrid U or a dataset hybrid");
}

bool is_repeated(const std::string& scheme) { return scheme == "em" || scheme == "mean-shift"; }

bool any_has(const std::vector<Scheme>& schemes, SchemeProperty property) {
  return std::any_of(schemes.begin(), schemes.end(),
                     [&](Scheme scheme) { return (description_of(scheme).*property)(); });
}

void require_effect_on(const cli::Arguments& arguments, const std::string& option,
                       SchemeProperty property, const std::vector<Scheme>& used) {
  if (!arguments.given(option) || any_has(used, property)) return;
  std::vector<std::string_view> with_property;
  for (const SchemeDescription* scheme : schemes()) {
    if ((scheme->*property)()) with_property.push_back(scheme->name());
  }
  throw Error(Failure::usage,
              fmt::format("--{} requires --scheme {}", option, fmt::join(with_property, " or ")));
}

}  // namespace attn::tools
