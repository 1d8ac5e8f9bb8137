#pragma once

#include "mechanisms/form.hpp"

namespace attn::mechanisms {

inline const MechanismForm& over_attention_form() {
  static const MechanismForm form = {
      .inputs = {{"document", "M D", "vectors of the document"},
                 {"question", "N D", "vectors of the question"}},
      .tokens = {{.name = "words",
                  .axes = "M",
                  .help = "the document's words, as numbers",
                  .optional = true}},
      .results = {{"s", "M", "attention over the document; the sum is 1"},
                  {.name = "p",
                   .axes = "M",
                   .help = "the probability of the word at each position",
                   .needs = {"words"}},
                  {"beta", "N", "the mean attention over the question"},
                  of_weights("weights_d", "M N", "softmax over the document, alpha"),
                  of_weights("weights_q", "M N", "softmax over the question, beta")},
      .lengths = {{"document_length", "M"}, {"question_length", "N"}}};
  return form;
}

}  // namespace attn::mechanisms
