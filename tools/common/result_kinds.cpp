#include "common/result_kinds.hpp"

#include "energy/energy_description.hpp"

namespace attn::tools {

const std::vector<ResultKind>& result_kinds() {
  static const std::vector<ResultKind> kinds = {
      {"out", {"query", "channel"}, true, true},  {"weights", {"query", "key"}, true, true},
      {"row_potential", {"query"}, false, false}, {"unas_row_potential", {"query"}, false, false},
      {"col_potential", {"key"}, false, false},   {"col_sum", {"key"}, false, false},
      {"row_entropy", {"query"}, false, true},
  };
  return kinds;
}

const std::vector<DualResultKind>& dual_result_kinds() {
  static const std::vector<DualResultKind> kinds = {
      {"lambda", {"query", "axis"}, false},         {"h", {"query", "axis"}, false},
      {"p", {"query", "template"}, true},           {"gap", {"query"}, false},
      {"gradient_norm", {"query"}, false},          {"iterations", {"query"}, false},
      {"relative_deviation", {"query"}, false},     {"h_first_order", {"query", "axis"}, false},
      {"h_second_order", {"query", "axis"}, false}, {"out", {"query", "channel"}, true},
      {"out_deviation", {"query"}, false},
  };
  return kinds;
}

const std::vector<std::string>& gradient_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"grad_q",      "grad_k",    "grad_v",
                                    "grad_hybrid", "grad_bias", "grad_rel_bias"};
    for (const EnergyDescription* energy : energies()) {
      for (const EnergyOperand& operand : energy->operands()) all.push_back("grad_" + operand.name);
    }
    all.insert(all.end(), {"grad_x", "grad_y", "grad_wq", "grad_wk", "grad_wv"});
    return all;
  }();
  return names;
}

}  // namespace attn::tools
