#include "common/results/result_table.hpp"

#include <algorithm>

#include "common/options/transform_names.hpp"
#include "common/results/result_kinds.hpp"
#include "energy/table.hpp"
#include "mechanisms/forms.hpp"
#include "scheme/table.hpp"

namespace attn::tools {
namespace {

using Names = std::vector<std::string>;

Names joined(Names first, const Names& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const Names score_inputs =
    joined(joined({"q", "k", "x", "y", "wq", "wk", "bq", "bk", "scores", "cost", "mask", "bias",
                   "preference", "rel_bias", "key_length"},
                  transform_names()),
           {energy_operand_names.begin(), energy_operand_names.end()});

ResultFamily attention() {
  Names names;
  for (const ResultKind& kind : result_kinds()) names.push_back(kind.name);
  names.insert(names.end(), {"joined", "queries"});
  return {.tool = "attn-compute",
          .names = joined(names, gradient_names()),
          .inputs = joined(score_inputs,
                           {"v", "wv", "bv", "hybrid", "grad_out", "wo", "bo", "grad_joined"}),
          .attributes = joined(scheme_attributes(), score_attributes()),
          .left_by_run = "attn_scheme",
          .value_left = "",
          .describes_attention = true,
          .always_marked = {"scores", "energies", "joined", "centre", "variance", "prior"}};
}

ResultFamily transport() {
  return {
      .tool = "sinkhorn-iter",
      .names = {"plan",
                "barycentre",
                "row_potential",
                "col_potential",
                "row_self_potential",
                "col_self_potential",
                "error",
                "chain",
                "dual_grad_a",
                "dual_grad_b",
                "dual_grad_q",
                "dual_grad_k",
                "dual_grad_histogram_weights",
                "grad_a",
                "grad_b",
                "grad_q",
                "grad_k",
                "grad_cost",
                "grad_scores",
                "grad_histogram_weights"},
      .inputs = joined(score_inputs, {"a", "b", "histogram_weights", "grad_plan",
                                      "grad_row_potential", "grad_col_potential", "grad_barycentre",
                                      "grad_row_self_potential", "grad_col_self_potential"}),
      .attributes = joined(scheme_attributes(), score_attributes()),
      .left_by_run = "attn_scheme",
      .value_left = "sinkhorn",
      .describes_attention = true};
}

ResultFamily dual() {
  Names names;
  for (const DualResultKind& kind : dual_result_kinds()) names.push_back(kind.name);
  return {.tool = "lambda-solve",
          .names = names,
          .inputs = joined(score_inputs, {"v", "wv", "bv", "t", "z"}),
          .attributes = joined(dual_attributes(), score_attributes()),
          .left_by_run = "attn_dual_status",
          .value_left = "",
          .always_marked = {"alpha"}};
}

ResultFamily columns() {
  Names names;
  Names sources(scheme_names.begin(), scheme_names.end());
  sources.emplace_back("stored");
  for (const std::string& source : sources) {
    for (const char* result : {"_col_sum", "_row_entropy"}) names.push_back(source + result);
  }
  names.emplace_back("queries_of_key");
  const Names of_stored = joined(
      score_inputs, {"hybrid", "weights", "row_potential", "col_potential", "unas_row_potential"});
  return {.tool = "explain-away-stats",
          .names = names,
          .inputs = joined(score_inputs, {"hybrid"}),
          .attributes = joined({"attn_hybrid", "attn_alpha", "attn_iterations", "attn_tolerance"},
                               score_attributes()),
          // The tool writes no attributes itself; these come from the run that made its input.
          .left_by_run = "attn_scheme",
          .value_left = "",
          .inputs_of = {{"stored_col_sum", of_stored},
                        {"stored_row_entropy", of_stored},
                        {"queries_of_key", joined(score_inputs, {"weights"})}},
          .of_scheme = {{"attn_hybrid", "hnas"},
                        {"attn_alpha", "fenchel"},
                        {"attn_iterations", "sinkhorn"},
                        {"attn_tolerance", "sinkhorn"}}};
}

ResultFamily paths() {
  return {.tool = "basis-paths",
          .names = {"basis_path", "path_basis", "path_exponent", "basis_value", "wk_skeleton",
                    "path_value", "skeleton_weight"},
          .inputs = {"wq", "wk", "skeleton_q", "skeleton_k", "path"},
          .attributes = {},
          .left_by_run = "",
          .value_left = "",
          .inputs_of = {{"basis_path", {"skeleton_q", "skeleton_k"}},
                        {"path_basis", {"path", "skeleton_q", "skeleton_k"}},
                        {"path_exponent", {"path", "skeleton_q", "skeleton_k"}},
                        {"path_value", {"basis_value", "skeleton_q", "skeleton_k"}}},
          .always_marked = {"skeleton_weight"}};
}

ResultFamily simulation() {
  Names names;
  for (const char* scheme : scheme_names) {
    for (const char* result :
         {"trajectory", "centre", "centre_distance", "spread", "modes", "log_likelihood"}) {
      names.push_back(std::string(scheme) + "/" + result);
    }
  }
  return {.tool = "mode-collapse-sim simulate",
          .names = names,
          .inputs = {"x", "label"},
          .attributes = {},
          .left_by_run = "",
          .value_left = ""};
}

ResultFamily mixture() {
  return {.tool = "mode-collapse-sim em",
          .names = {"em/log_likelihood", "em/variance", "em/centre", "em/prior"},
          .inputs = {"x", "start"},
          .attributes = {},
          .left_by_run = "",
          .value_left = ""};
}

ResultFamily mechanism(const mechanisms::ToolForm& tool) {
  ResultFamily family = {.tool = tool.tool,
                         .names = {},
                         .inputs = {},
                         .attributes = {},
                         .left_by_run = "",
                         .value_left = ""};
  for (const auto& result : tool.form->results) family.names.push_back(result.name);
  for (const auto& input : tool.form->inputs) family.names.push_back("grad_" + input.name);
  family.always_marked = family.names;
  for (const auto& setting : tool.gradient_settings)
    family.of_scheme.emplace_back(setting, "grad_");
  return family;
}

std::vector<ResultFamily> all_families() {
  std::vector<ResultFamily> all = {attention(), transport(),  dual(),   columns(),
                                   paths(),     simulation(), mixture()};
  for (const mechanisms::ToolForm& tool : mechanisms::tool_forms()) all.push_back(mechanism(tool));
  return all;
}

}  // namespace

bool ResultFamily::has(const std::string& name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool ResultFamily::may_lack_mark(const std::string& name) const {
  return std::find(always_marked.begin(), always_marked.end(), name) == always_marked.end();
}

const std::vector<ResultFamily>& result_table() {
  static const std::vector<ResultFamily> table = all_families();
  return table;
}

const ResultFamily* result_family(const std::string& tool) {
  const auto& table = result_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const ResultFamily& family) { return family.tool == tool; });
  return found == table.end() ? nullptr : &*found;
}

const std::vector<std::string>& scheme_attributes() {
  static const Names names = {
      "attn_scheme",       "attn_hybrid",       "attn_alpha",  "attn_iterations", "attn_tolerance",
      "attn_l1_tolerance", "attn_precision",    "attn_status", "attn_marginals",  "attn_repeated",
      "attn_estimate",     "attn_min_variance", "attn_gamma"};
  return names;
}

std::vector<std::string> attention_attributes() {
  Names names = joined(scheme_attributes(), score_attributes());
  names.erase(std::find(names.begin(), names.end(), "attn_layout"));
  return names;
}

const std::vector<std::string>& dual_attributes() {
  static const Names names = {
      "attn_dual_divergence",     "attn_dual_alpha", "attn_dual_radius", "attn_dual_scale",
      "attn_dual_evidence_scale", "attn_dual_gamma", "attn_dual_status"};
  return names;
}

}  // namespace attn::tools
