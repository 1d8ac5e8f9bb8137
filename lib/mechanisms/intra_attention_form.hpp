#pragma once

#include <vector>

#include "mechanisms/form.hpp"

namespace attn::mechanisms {

/// How a sequence uses the tapes of another sequence; see IntraAttention.
enum class Fusion { none, shallow, deep };

inline MechanismForm make_intra_attention_form(Fusion fusion) {
  using Kind = TensorForm::Kind;
  MechanismForm form = {
      .inputs = {{"x", "T E", "the sequence"},
                 {"w_h", "A D", "W_h, for earlier states", Kind::shared},
                 {"w_x", "A E", "W_x", Kind::shared},
                 {"w_prev", "A D", "for the mean of the step before", Kind::shared},
                 {"v", "A", "v of the energies", Kind::shared},
                 {"w", "4*D D+E", "the cell: rows i, f, o, c; columns h, then x", Kind::shared},
                 {"b", "4*D", "biases of the cell", Kind::shared, true}},
      .tokens = {},
      .results = {{"h", "T D", "states"},
                  {"c", "T D", "memories"},
                  of_weights("weights", "T T", "weights of the earlier states: a triangle")},
      .lengths = {{"length", "T"}}};
  if (fusion == Fusion::none) return form;
  const std::vector<TensorForm> more = {
      {"source_h", "S G", "states of the source"},
      {"source_c", "S D", "memories of the source"},
      {"u_h", "B G", "U_h, for states of the source", Kind::shared},
      {"u_x", "B E", "U_x", Kind::shared},
      {"u_prev", "B G", "for the source's mean of the step before", Kind::shared},
      {"u", "B", "u of the energies of the source", Kind::shared}};
  form.inputs.insert(form.inputs.end(), more.begin(), more.end());
  if (fusion == Fusion::deep) {
    form.inputs.push_back({"w_r", "D G+E", "W_r: columns for the mean, then x", Kind::shared});
  }
  form.results.push_back({"fused", "T G", "means of the source's states"});
  form.results.push_back(of_weights("source_weights", "T S", "weights of the source's states"));
  form.lengths.push_back({"source_length", "S"});
  return form;
}

inline const MechanismForm& intra_attention_form(Fusion fusion) {
  static const MechanismForm forms[] = {make_intra_attention_form(Fusion::none),
                                        make_intra_attention_form(Fusion::shallow),
                                        make_intra_attention_form(Fusion::deep)};
  return forms[static_cast<std::size_t>(fusion)];
}

}  // namespace attn::mechanisms
