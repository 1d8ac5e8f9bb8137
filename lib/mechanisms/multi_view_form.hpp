#pragma once

#include <limits>
#include <string>

#include "mechanisms/form.hpp"

namespace attn::mechanisms {

/// The most secondary views.
inline constexpr std::size_t most_views = 8;

/// How the form depends on the scheme.
enum class HybridForm {
  none,   ///< not hnas
  fixed,  ///< hnas with u as an option
  input,  ///< hnas with the input `hybrid`
};

inline MechanismForm make_multi_view_form(HybridForm hybrid) {
  using Kind = TensorForm::Kind;
  MechanismForm form = {.inputs = {{"x", "N D", "the primary view, which attends to the others"}},
                        .tokens = {},
                        .results = {{"out", "N D", "the layer norm of x and what it gathers"}},
                        .lengths = {{"x_length", "N"}}};
  // One tensor for each view: adds its number to the names.
  const auto add_series = [](std::vector<TensorForm>& to, const TensorForm& first,
                             const std::string& axes) {
    for (std::size_t v = 1; v <= most_views; ++v) {
      const std::string number = std::to_string(v);
      TensorForm one = first;
      one.name += number;
      std::string own_axes = axes;
      for (std::size_t at = 0; (at = own_axes.find('M', at)) != std::string::npos; ++at) {
        own_axes.insert(at + 1, number);
      }
      one.axes = own_axes;
      if (!one.needed_with.empty()) one.needed_with += number;
      for (std::string& name : one.needs) name += number;
      one.repeated = v > 1;
      to.push_back(one);
    }
  };
  add_series(form.inputs,
             {.name = "view", .axes = "", .help = "a secondary view; all but view1 are optional"},
             "M D");
  for (std::size_t v = 1; v <= most_views; ++v) {
    form.inputs[v].optional = v > 1;
    form.lengths.push_back({form.inputs[v].name + "_length", "M" + std::to_string(v), v > 1});
  }
  form.inputs.push_back({"wq", "D A", "W_Q, for queries x wq", Kind::shared});
  form.inputs.push_back({"wk", "D A", "W_K of views without their own", Kind::shared, true});
  add_series(form.inputs,
             {.name = "wk",
              .axes = "",
              .help = "W_K of view1 (of view2, ...), in place of wk",
              .kind = Kind::shared,
              .optional = true,
              .needed_with = "view",
              .or_else = "wk"},
             "D A");
  form.inputs.push_back({"gain", "D", "of the layer norm, 1 if absent", Kind::shared, true});
  form.inputs.push_back({"shift", "D", "of the layer norm, 0 if absent", Kind::shared, true});
  if (hybrid == HybridForm::input) {
    form.inputs.push_back({"hybrid", "", "u of hnas, in [0, 1]", Kind::shared});
  }
  const auto add_results = [&](const std::string& name, const std::string& axes,
                               const std::string& help, double padding = 0) {
    TensorForm first = of_weights(name, "", help);
    first.needs = {"view"};
    first.padding = padding;
    add_series(form.results, first, axes);
  };
  // The potential of a line without pairs.
  constexpr double no_pair = -std::numeric_limits<double>::infinity();
  add_results("weights", "N M", "the weights of the rows of view1 (of view2, ...)");
  add_results("col_sum", "M", "their column sums");
  add_results("row_potential", "N",
              "f of weights1 = exp((scores - g) - f), for hnas f of dnas; -inf without pairs",
              no_pair);
  add_results("col_potential", "M", "their g; 0 for unas, -inf without pairs", no_pair);
  if (hybrid != HybridForm::none) {
    add_results("unas_row_potential", "N", "for hnas: f of unas", no_pair);
  }
  return form;
}

inline const MechanismForm& multi_view_form(HybridForm hybrid) {
  static const MechanismForm forms[] = {make_multi_view_form(HybridForm::none),
                                        make_multi_view_form(HybridForm::fixed),
                                        make_multi_view_form(HybridForm::input)};
  return forms[static_cast<std::size_t>(hybrid)];
}

}  // namespace attn::mechanisms
