#include "common/results/result_kinds.hpp"

#include "energy/table.hpp"

namespace attn::tools {

const std::vector<ResultKind>& result_kinds() {
  static const std::vector<ResultKind> kinds = {
      {"out", {"query", "channel"}, true, true},  {"weights", {"query", "key"}, true, true},
      {"scores", {"query", "key"}, true, true},   {"energies", {"query", "key"}, true, true},
      {"row_potential", {"query"}, false, false}, {"unas_row_potential", {"query"}, false, false},
      {"col_potential", {"key"}, false, false},   {"col_sum", {"key"}, false, false},
      {"row_entropy", {"query"}, false, true},    {"centre", {"query", "dimension"}, false, false},
      {"variance", {"query"}, false, false},      {"prior", {"query"}, false, false},
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
      {"out_deviation", {"query"}, false},          {"alpha", {"query"}, false},
  };
  return kinds;
}

const std::vector<std::string>& gradient_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"grad_q",    "grad_k",       "grad_v",    "grad_hybrid",
                                    "grad_sink", "grad_gate",    "grad_bias", "grad_preference",
                                    "grad_cost", "grad_rel_bias"};
    for (const char* operand : energy_operand_names) all.push_back(std::string("grad_") + operand);
    for (const char* operand :
         {"x", "y", "wq", "wk", "wv", "bq", "bk", "bv", "q_norm", "k_norm", "q_layer_norm",
          "k_layer_norm", "q_layer_norm_bias", "k_layer_norm_bias", "wo", "bo"}) {
      all.push_back(std::string("grad_") + operand);
    }
    return all;
  }();
  return names;
}

const std::vector<std::string>& score_attributes() {
  static const std::vector<std::string> names = {
      "attn_energy", "attn_scale",        "attn_causal",  "attn_source", "attn_relative_bias",
      "attn_window", "attn_query_offset", "attn_softcap", "attn_layout", "attn_epsilon"};
  return names;
}

}  // namespace attn::tools
