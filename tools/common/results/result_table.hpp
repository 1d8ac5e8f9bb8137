#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attn::tools {

/// The results that one tool writes into bundles, and their inputs and settings.
struct ResultFamily {
  std::string tool;
  std::vector<std::string> names;       ///< datasets of a section: "out", "unas/centre"
  std::vector<std::string> inputs;      ///< of results without a mark
  std::vector<std::string> attributes;  ///< root attributes that record their settings
  std::string left_by_run;  ///< a root attribute that only a run of the tool writes; may be empty
  std::string value_left;   ///< the value it must have; empty: any
  /// For single results whose inputs differ from the others.
  std::map<std::string, std::vector<std::string>> inputs_of = {};
  /// A run writes `attributes`, which describe out, weights and potentials of the whole bundle.
  bool describes_attention = false;
  /// Results that always have a mark: no version of a tool wrote them without one.
  std::vector<std::string> always_marked = {};
  /// Attributes that concern only the results whose names begin with a prefix: a scheme's name, or
  /// grad_.
  std::vector<std::pair<std::string, std::string>> of_scheme = {};

  bool has(const std::string& name) const;

  /// Whether a dataset called `name` without a mark may be a result.
  bool may_lack_mark(const std::string& name) const;
};

/// The table of all tools: the only place that defines which datasets are results. All others
/// (weights, optimiser state, skeletons, drawn points) are inputs and are copied.
const std::vector<ResultFamily>& result_table();

/// The entry of a tool ("attn-compute", "mode-collapse-sim em"); null for a tool that writes no
/// results.
const ResultFamily* result_family(const std::string& tool);

/// Root attributes of a run of attn-compute or sinkhorn-iter besides the scores' attributes.
const std::vector<std::string>& scheme_attributes();

/// scheme_attributes and the attributes of the scores, except attn_layout, which describes the
/// tensors.
std::vector<std::string> attention_attributes();

/// Root attributes of a run of lambda-solve.
const std::vector<std::string>& dual_attributes();

}  // namespace attn::tools
