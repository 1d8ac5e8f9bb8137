#include "common/scheme_settings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {

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

Index most_iterations(const SchemeOptions& options) {
  if (options.scheme != Scheme::sinkhorn) return 1;
  return options.iterations.value_or(usual_iterations);
}

double score_passes(const SchemeOptions& options) {
  switch (options.scheme) {
    case Scheme::unas:
    case Scheme::fenchel:
      return 1;
    case Scheme::dnas:
    case Scheme::hnas:
      return 2;
    case Scheme::sinkhorn:
      break;
  }
  if (options.iterations && !options.tolerance) return 2 * static_cast<double>(*options.iterations);
  // Each check is half an iteration, and the weights are shown once more at the end.
  return 2 * static_cast<double>(most_iterations(options)) + 2;
}

}  // namespace attn::tools
