#pragma once

#include <string>
#include <vector>

#include "mechanisms/form.hpp"

namespace attn::mechanisms {

// The weights of one network of the decoder, for the word "start" or "end".
inline std::vector<TensorForm> highway_maxout_inputs(const std::string& word) {
  const auto weights = [&](const std::string& name, const std::string& axes,
                           const std::string& help) {
    return TensorForm{.name = word + name,
                      .axes = axes,
                      .help = help,
                      .kind = TensorForm::Kind::shared,
                      .optional = true,
                      .needed_with = "w_decoder"};
  };
  const auto bias = [&](const std::string& name, const std::string& axes) {
    return TensorForm{word + name, axes, "", TensorForm::Kind::shared, true};
  };
  return {weights("_w", "L 5*L", "W_D, for scores of the " + word + ": columns h, u_s, u_e"),
          weights("_w1", "P*L 3*L", "W1, piece by piece; columns u_t, r"),
          bias("_b1", "P*L"),
          weights("_w2", "P*L L", "W2, piece by piece"),
          bias("_b2", "P*L"),
          weights("_w3", "P 2*L", "W3: columns m1, m2"),
          bias("_b3", "P")};
}

inline MechanismForm make_coattention_form() {
  using Kind = TensorForm::Kind;
  MechanismForm form = {
      .inputs = {{"document", "M E", "word vectors of the document"},
                 {"question", "N E", "those of the question"},
                 {"w", "4*L L+E", "the LSTM of both: rows i, f, o, c; columns h, x", Kind::shared},
                 {"b", "4*L", "", Kind::shared, true},
                 {"sentinel_d", "L", "row M+1 of D", Kind::shared},
                 {"sentinel_q", "L", "row N+1 of the question's states", Kind::shared},
                 {"w_question", "L L", "the layer over the question's states", Kind::shared},
                 {"b_question", "L", "", Kind::shared, true},
                 {"w_forward", "4*L 4*L", "the LSTM over [d_t; c_t] from the left", Kind::shared},
                 {"b_forward", "4*L", "", Kind::shared, true},
                 {"w_backward", "4*L 4*L", "the one from the right", Kind::shared},
                 {"b_backward", "4*L", "", Kind::shared, true},
                 {"w_decoder", "4*L 5*L", "the decoder's LSTM: columns h, u_s, u_e", Kind::shared,
                  true},
                 {"b_decoder", "4*L", "", Kind::shared, true}},
      .tokens = {{.name = "target",
                  .axes = "2",
                  .help = "first and last position of the answer, from 0",
                  .optional = true,
                  .below = "M"}},
      .results = {},
      .lengths = {{"document_length", "M"}, {"question_length", "N"}}};
  for (const char* word : {"start", "end"}) {
    for (const TensorForm& input : highway_maxout_inputs(word)) form.inputs.push_back(input);
  }
  const auto decoded = [](const std::string& name, const std::string& axes, const std::string& help,
                          bool differentiable = true) {
    return TensorForm{.name = name,
                      .axes = axes,
                      .help = help,
                      .needs = {"w_decoder"},
                      .differentiable = differentiable};
  };
  form.results = {{"encoding", "M 2*L", "u: what the BiLSTM has read at each position"},
                  {.name = "context",
                   .axes = "M 2*L",
                   .help = "c: the coattention context of each position",
                   .by_default = false},
                  decoded("start_log_p", "I M", "log p of the start, by iteration"),
                  decoded("end_log_p", "I M", "log p of the end, by iteration"),
                  decoded("span", "2", "first and last position of the answer found", false),
                  decoded("iterations", "", "how many were made", false),
                  {.name = "loss",
                   .axes = "",
                   .help = "-log p of the target's start and end, over all iterations",
                   .needs = {"w_decoder", "target"}},
                  of_weights("weights_q", "N+1 M+1", "A^Q': of the document, by question row"),
                  of_weights("weights_d", "M+1 N+1", "A^D': of the question, by document row")};
  return form;
}

inline const MechanismForm& coattention_form() {
  static const MechanismForm form = make_coattention_form();
  return form;
}

}  // namespace attn::mechanisms
