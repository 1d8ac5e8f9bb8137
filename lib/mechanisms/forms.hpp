#pragma once

#include <string>
#include <vector>

#include "mechanisms/form.hpp"

/// What each mechanism reads and computes. Formulas are in the header of the mechanism. This file
/// needs nothing of the mathematics: tools that only have to know names include it, too.
namespace attn::mechanisms {

inline const MechanismForm& structured_form() {
  using Kind = TensorForm::Kind;
  static const MechanismForm form = {
      .inputs = {{"x", "T D", "the vectors of a sequence"},
                 {"w1", "A D", "W1", Kind::shared},
                 {"w2", "R A", "W2: a row for each hop", Kind::shared}},
      .tokens = {},
      .results = {{"out", "R D", "the hops' means M = A x"},
                  {"weights", "R T", "A; the rows have sums of 1"},
                  {"overlap", "R R", "A A'"},
                  {"penalty", "", "|A A' - I|^2, the square of Frobenius' norm"}},
      .lengths = {{"length", "T"}}};
  return form;
}

inline const MechanismForm& decomposable_form() {
  using Kind = TensorForm::Kind;
  static const MechanismForm form = {
      .inputs = {{"a", "M D", "the vectors of one side"},
                 {"b", "N D", "those of the other side"},
                 {"f1", "F D", "F: first layer", Kind::shared},
                 {"f1_bias", "F", "", Kind::shared, true},
                 {"f2", "E F", "F: second layer", Kind::shared},
                 {"f2_bias", "E", "", Kind::shared, true},
                 {"g1", "G 2*D", "G: first layer", Kind::shared},
                 {"g1_bias", "G", "", Kind::shared, true},
                 {"g2", "C G", "G: second layer", Kind::shared},
                 {"g2_bias", "C", "", Kind::shared, true},
                 {"h1", "H 2*C", "H: first layer", Kind::shared},
                 {"h1_bias", "H", "", Kind::shared, true},
                 {"h2", "K H", "H: second layer, a row for each class", Kind::shared},
                 {"h2_bias", "K", "", Kind::shared, true}},
      .tokens = {},
      .results = {{"scores", "K", "the classes' scores"},
                  {"beta", "M D", "what a is aligned with: means of b"},
                  {"alpha", "N D", "what b is aligned with: means of a"},
                  of_weights("weights_a", "M N", "weights of b for each of a"),
                  of_weights("weights_b", "N M", "weights of a for each of b")},
      .lengths = {{"a_length", "M"}, {"b_length", "N"}}};
  return form;
}

inline const MechanismForm& over_attention_form() {
  static const MechanismForm form = {
      .inputs = {{"document", "M D", "vectors of the document"},
                 {"question", "N D", "vectors of the question"}},
      .tokens = {{.name = "words",
                  .axes = "M",
                  .help = "the document's words, as numbers",
                  .optional = true}},
      .results = {{"s", "M", "attention over the document; the sum is 1"},
                  {"p", "M", "the probability of the word at each position; needs words"},
                  {"beta", "N", "the mean attention over the question"},
                  of_weights("weights_d", "M N", "softmax over the document, alpha"),
                  of_weights("weights_q", "M N", "softmax over the question, beta")},
      .lengths = {{"document_length", "M"}, {"question_length", "N"}}};
  return form;
}

/// How a sequence sees the tapes of another one; see IntraAttention.
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

/// A tool with all that it may read and compute.
struct ToolForm {
  std::string tool;
  const MechanismForm* form = nullptr;
};

inline const std::vector<ToolForm>& tool_forms() {
  static const std::vector<ToolForm> forms = {
      {"intra-attention", &intra_attention_form(Fusion::deep)},
      {"structured-attention", &structured_form()},
      {"decomposable-attention", &decomposable_form()},
      {"attention-over-attention", &over_attention_form()}};
  return forms;
}

}  // namespace attn::mechanisms
