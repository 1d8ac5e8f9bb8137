#pragma once

#include <string>
#include <vector>

namespace attn::tools {

/// One dataset that attn-compute can write: its own axes, after the leading ones, and its type.
struct ResultKind {
  std::string name;
  std::vector<std::string> axes;  ///< of "query", "key", "channel", "dimension"
  bool computed_type;             ///< has the type of the computation; else float64
  bool by_choice;                 ///< has only selected queries, if queries are selected

  /// Whether the result has a number for each query and key.
  bool by_pair() const { return axes.back() == "key" && axes.size() == 2; }
};

const std::vector<ResultKind>& result_kinds();

/// One dataset that lambda-solve can write: its own axes, after the leading ones.
struct DualResultKind {
  std::string name;
  std::vector<std::string> axes;  ///< of "query", "template", "axis", "channel"
  bool computed_type;             ///< has the type of --precision; else float64
};

const std::vector<DualResultKind>& dual_result_kinds();

/// Names of the gradients that attn-compute can write.
const std::vector<std::string>& gradient_names();

/// Names of the attributes that record score options.
const std::vector<std::string>& score_attributes();

}  // namespace attn::tools
