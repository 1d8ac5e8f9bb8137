#include "attn_compute/gradient_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attn_compute/attention_results.hpp"
#include "attnkit/error.hpp"
#include "common/results/result_kinds.hpp"
#include "energy/energy_description.hpp"
#include "gradient/shared_sums.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

using Source = ScoreOptions::Source;

const std::string& first_gradient(const ComputeOptions& options) {
  const auto& names = gradient_names();
  return *std::find_if(names.begin(), names.end(),
                       [&](const std::string& name) { return options.emits(name); });
}

[[noreturn]] void refuse(const std::string& name, const std::string& why,
                         const std::string& hint = "") {
  throw Error(Failure::usage, "--emit " + name + ": " + why, hint);
}

// Further advice on a name that the run has no gradient for.
[[noreturn]] void refuse_missing(const std::string& name, const AttentionInput& input) {
  const bool projects = input.options.source == Source::projection;
  const bool of_projection = name == "grad_x" || name == "grad_y" || name == "grad_wq" ||
                             name == "grad_wk" || name == "grad_wv";
  if (projects && (name == "grad_q" || name == "grad_k" || name == "grad_v")) {
    refuse(name, "q, k and v are made by projection", "--emit grad_x,grad_wq,grad_wk,grad_wv");
  }
  if (projects && name == "grad_y") refuse(name, "there is no dataset y", "--emit grad_x");
  if (of_projection) refuse(name, "nothing is projected", "--from projection");
  if (name == "grad_q" || name == "grad_k") refuse(name, "the scores are ready-made");
  if (name == "grad_hybrid") refuse(name, "only --scheme hnas has a hybrid", "--scheme hnas");
  for (const EnergyDescription* energy : energies()) {
    for (const EnergyOperand& operand : energy->operands()) {
      if (name != "grad_" + operand.name) continue;
      refuse(name,
             fmt::format("requires --energy {} and a dataset {}", energy->name(), operand.name));
    }
  }
  if (name == "grad_wo" || name == "grad_bo") refuse(name, "there is no dataset " + name.substr(5));
  if (name == "grad_sink") refuse(name, "there is no dataset sink");
  if (name == "grad_gate") refuse(name, "there is no dataset gate");
  if (name == "grad_rel_bias") refuse(name, "there is no --relative-bias t5");
  refuse(name, "there is no dataset bias, nor a --relative-bias t5");
}

class Planner {
 public:
  Planner(const AttentionInput& input, const io::InputBundle& bundle, bool hybrid_given)
      : input_(input), bundle_(bundle), hybrid_given_(hybrid_given) {}

  GradientKind plan(const std::string& name, Scheme scheme) const {
    if (name == "grad_hybrid" && description_of(scheme).is_mixture()) return of_hybrid();
    const auto found = operand(name);
    if (!found) refuse_missing(name, input_);
    return *found;
  }

 private:
  // The gradient of an operand that is present.
  static std::optional<GradientKind> of(const std::string& name,
                                        const std::optional<Operand>& operand,
                                        const std::vector<std::string>& labels = {}) {
    if (!operand) return std::nullopt;
    return GradientKind{name, operand, labels};
  }

  // The gradient of q, k or v, or of the weights that project them.
  std::optional<GradientKind> vectors(const std::string& name,
                                      const std::optional<Vectors>& vectors,
                                      const char* axis) const {
    const bool weights = name.size() > 1 && name[name.size() - 2] == 'w';
    if (!vectors || (weights != vectors->weights.has_value())) return std::nullopt;
    if (weights) return of(name, vectors->weights, {"input", "dimension"});
    return of(name, vectors->input, {axis, "dimension"});
  }

  std::optional<GradientKind> operand(const std::string& name) const {
    if (name == "grad_q" || name == "grad_wq") return vectors(name, input_.q, "query");
    if (name == "grad_k" || name == "grad_wk") return vectors(name, input_.k, "key");
    if (name == "grad_v" || name == "grad_wv") return vectors(name, input_.v, "key");
    if (name == "grad_x" || name == "grad_y") return of_projected(name);
    if (name == "grad_wo") return of(name, input_.wo, {"channel", "dimension"});
    if (name == "grad_bo") return of(name, input_.bo, {"query", "dimension"});
    for (std::size_t n = 0; n < input_.energy_operands.size(); ++n) {
      if (name == "grad_" + input_.energy().operands()[n].name) {
        return of(name, input_.energy_operands[n]);
      }
    }
    if (name == "grad_sink") return of(name, input_.sink);
    if (name == "grad_gate") return of(name, input_.gate, {"query", "channel"});
    const bool of_dataset = name == "grad_bias" && input_.bias;
    if (of_dataset) return of(name, input_.bias, {"query", "key"});
    if (name == "grad_bias" || name == "grad_rel_bias") {
      return of(name, input_.rel_bias, {"bucket", "head"});
    }
    return std::nullopt;
  }

  std::optional<GradientKind> of_projected(const std::string& name) const {
    if (!input_.q || !input_.q->weights) return std::nullopt;
    if (name == "grad_x") return of(name, input_.q->input, {"query", "input"});
    if (!bundle_.has("y")) return std::nullopt;
    return of(name, input_.k->input, {"key", "input"});
  }

  GradientKind of_hybrid() const {
    GradientKind kind{"grad_hybrid", std::nullopt, {}};
    if (hybrid_given_) return kind;
    const ArraySource dataset = bundle_.dataset("hybrid");
    kind.of.emplace(Operand{dataset, dataset.shape(), 1, 1,
                            LeadingMap(input_.leading, dataset.shape(), false, dataset.address())});
    return kind;
  }

  const AttentionInput& input_;
  const io::InputBundle& bundle_;
  bool hybrid_given_;
};

}  // namespace

void require_gradients(const ComputeOptions& options, const io::InputBundle& bundle,
                       bool chooses_queries) {
  if (!options.emits_gradients()) return;
  const std::string& name = first_gradient(options);
  if (chooses_queries) refuse(name, "gradients need all queries, but --queries selects some");
  for (const char* of_join : {"grad_wo", "grad_bo"}) {
    if (options.emits(of_join) && !options.join) refuse(of_join, "heads are not joined", "--join");
  }
  const std::string from = options.join ? "joined" : "out";
  if (!bundle.has("grad_" + from)) {
    refuse(name,
           fmt::format("there is no dataset grad_{}, the gradient of the loss with respect to {}",
                       from, from),
           fmt::format("-i grad_{}=FILE:/path", from));
  }
  const std::string values = options.scores.source == Source::projection ? "wv" : "v";
  if (!bundle.has(values)) refuse(name, "there is no " + values + ", hence no out");
}

std::vector<GradientKind> gradient_kinds(const ComputeOptions& options, const AttentionInput& input,
                                         const io::InputBundle& bundle, bool hybrid_given) {
  const Planner planner(input, bundle, hybrid_given);
  std::vector<GradientKind> kinds;
  for (const std::string& name : gradient_names()) {
    if (options.emits(name)) kinds.push_back(planner.plan(name, options.scheme.scheme));
  }
  return kinds;
}

std::vector<Index> blocks_by_problem(const GradientKind& kind, Index problems) {
  std::vector<Index> blocks;
  for (Index problem = 0; problem < problems; ++problem) blocks.push_back(kind.block(problem));
  return blocks;
}

std::int64_t gradient_sum_bytes(const std::vector<GradientKind>& kinds, Index problems) {
  std::int64_t bytes = 0;
  for (const GradientKind& kind : kinds) {
    const SharedSums<double> sums(blocks_by_problem(kind, problems), kind.blocks());
    bytes += sums.most_open() * kind.size() * static_cast<std::int64_t>(sizeof(double));
  }
  return bytes;
}

}  // namespace attn::tools
