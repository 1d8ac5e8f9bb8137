#include "shared/attention_results.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "shared/weights_writer.hpp"
#include "tensor/error.hpp"

namespace attn::tools {

bool ComputeOptions::emits_gradients() const {
  const auto& names = gradient_names();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return emits(name); });
}

const std::vector<ResultKind>& result_kinds() {
  static const std::vector<ResultKind> kinds = {
      {"out", {"query", "channel"}, true, true},  {"weights", {"query", "key"}, true, true},
      {"row_potential", {"query"}, false, false}, {"unas_row_potential", {"query"}, false, false},
      {"col_potential", {"key"}, false, false},   {"col_sum", {"key"}, false, false},
      {"row_entropy", {"query"}, false, true},
  };
  return kinds;
}

Shape own_shape(const ResultKind& kind, const ComputeOptions& options,
                const AttentionInput& input) {
  const Index queries =
      kind.by_choice && options.queries ? options.queries->count() : input.queries;
  Shape shape;
  for (const std::string& axis : kind.axes) {
    shape.push_back(axis == "query" ? queries : (axis == "key" ? input.keys : input.value_depth));
  }
  return shape;
}

void create_results(HeadOutputs& outputs, const ComputeOptions& options,
                    const AttentionInput& input, bool f64) {
  for (const ResultKind& kind : result_kinds()) {
    if (!options.emits(kind.name)) continue;
    const DType type = f64 || !kind.computed_type ? DType::f64 : DType::f32;
    const Shape shape = own_shape(kind, options, input);
    const Shape chunk =
        kind.name == "weights" ? weights_chunk(shape.front(), shape.back()) : Shape{};
    const bool inside =
        kind.name == "out" && input.options.layout == ScoreOptions::Layout::heads_inside;
    outputs.create(kind.name, type, shape, kind.axes, chunk, inside);
  }
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
  throw Error(Failure::usage, "hnas needs --hybrid U or a dataset hybrid");
}

}  // namespace attn::tools
