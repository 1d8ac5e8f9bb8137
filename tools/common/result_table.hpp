#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attn::tools {

/// What one tool writes into bundles as its results, and what these depend on.
struct ResultFamily {
  std::string tool;
  std::vector<std::string> names;       ///< datasets of a section: "out", "unas/centre"
  std::vector<std::string> inputs;      ///< of results without a mark
  std::vector<std::string> attributes;  ///< root attributes that say how they were made
  std::string left_by_run;  ///< a root attribute that only a run of the tool leaves; may be empty
  std::string value_left;   ///< the value it must have; empty: any
  /// Where single results have other inputs than the rest.
  std::map<std::string, std::vector<std::string>> inputs_of = {};
  /// A run writes `attributes`, and says with them what out, weights and potentials of the whole
  /// bundle are.
  bool describes_attention = false;
  /// Attributes that concern only the results whose names begin with a scheme's.
  std::vector<std::pair<std::string, std::string>> of_scheme = {};

  bool has(const std::string& name) const;
};

/// The table of all tools: the one place that says which datasets are results. Everything else
/// (weights, optimiser state, skeletons, drawn points) is an input and is copied.
const std::vector<ResultFamily>& result_table();

/// The entry of a tool ("attn-compute", "mode-collapse-sim em"); null for one that writes no
/// results.
const ResultFamily* result_family(const std::string& tool);

/// Root attributes of a run of attn-compute or sinkhorn-iter besides those of the scores.
const std::vector<std::string>& scheme_attributes();

/// Those and the ones of the scores, but not attn_layout, which describes the tensors.
std::vector<std::string> attention_attributes();

/// Root attributes of a run of lambda-solve.
const std::vector<std::string>& dual_attributes();

}  // namespace attn::tools
