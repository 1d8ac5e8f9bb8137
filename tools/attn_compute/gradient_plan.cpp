#include "attn_compute/gradient_plan.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "attn_compute/attention_results.hpp"
#include "attnkit/error.hpp"
#include "common/results/result_kinds.hpp"
#include "energy/energy_description.hpp"
#include "head/gradient_operands.hpp"
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
  const bool of_norm = name.find("_norm") != std::string::npos;
  const bool of_projection = name == "grad_x" || name == "grad_y" || name == "grad_wq" ||
                             name == "grad_wk" || name == "grad_wv" || name == "grad_bq" ||
                             name == "grad_bk" || name == "grad_bv" || of_norm;
  if (projects && (name == "grad_q" || name == "grad_k" || name == "grad_v")) {
    refuse(name, "q, k and v are made by projection", "--emit grad_x,grad_wq,grad_wk,grad_wv");
  }
  if (projects && name == "grad_y") refuse(name, "there is no dataset y", "--emit grad_x");
  if (of_projection && !projects) refuse(name, "nothing is projected", "--from projection");
  if (name == "grad_q" || name == "grad_k") refuse(name, "the scores are ready-made");
  if (name == "grad_hybrid") refuse(name, "only --scheme hnas has a hybrid", "--scheme hnas");
  for (const EnergyDescription* energy : energies()) {
    for (const EnergyOperand& operand : energy->operands()) {
      if (name != "grad_" + operand.name) continue;
      refuse(name,
             fmt::format("requires --energy {} and a dataset {}", energy->name(), operand.name));
    }
  }
  const bool of_bias = name == "grad_bq" || name == "grad_bk" || name == "grad_bv";
  if (of_bias || of_norm || name == "grad_wo" || name == "grad_bo") {
    refuse(name, "there is no dataset " + name.substr(5));
  }
  if (name == "grad_preference") {
    refuse(name, "requires --scheme fenchel or transport and a dataset preference");
  }
  if (name == "grad_cost") refuse(name, "only --scheme transport has a cost", "--scheme transport");
  if (name == "grad_sink") refuse(name, "there is no dataset sink");
  if (name == "grad_gate") refuse(name, "there is no dataset gate");
  if (name == "grad_rel_bias") refuse(name, "there is no --relative-bias t5");
  refuse(name, "there is neither a dataset bias nor --relative-bias t5");
}

// The labels of the axes of a block; none for the operands of energies.
std::vector<std::string> labels_of(const std::string& operand) {
  static const std::map<std::string, std::vector<std::string>> labels = {
      {"q", {"query", "dimension"}},    {"k", {"key", "dimension"}},
      {"v", {"key", "dimension"}},      {"x", {"query", "input"}},
      {"y", {"key", "input"}},          {"wq", {"input", "dimension"}},
      {"wk", {"input", "dimension"}},   {"wv", {"input", "dimension"}},
      {"wo", {"channel", "dimension"}}, {"bo", {"query", "dimension"}},
      {"gate", {"query", "channel"}},   {"bias", {"query", "key"}},
      {"preference", {"query", "key"}}, {"cost", {"key", "key"}},
      {"rel_bias", {"bucket", "head"}}};
  const auto found = labels.find(operand);
  return found == labels.end() ? std::vector<std::string>() : found->second;
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
  std::optional<GradientKind> operand(const std::string& name) const {
    const std::string wanted = name.substr(std::string("grad_").size());
    const auto kind = [&](const std::optional<Operand>& of) {
      return of ? std::optional(GradientKind{name, of, labels_of(wanted)}) : std::nullopt;
    };
    if (wanted == "wo") return kind(input_.wo);
    if (wanted == "bo") return kind(input_.bo);
    for (const auto& of : gradient_operands<float>(input_, Scheme::unas, std::nullopt)) {
      if (of.name == wanted) return kind(of.operand);
    }
    // Without a dataset bias, the gradient of the bias is that of T5's table.
    if (wanted != "bias" || !input_.rel_bias) return std::nullopt;
    return GradientKind{name, input_.rel_bias, labels_of("rel_bias")};
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

}  // namespace attn::tools
