#pragma once

#include "mechanisms/form.hpp"

namespace attn::mechanisms {

inline const MechanismForm& hard_form() {
  using Kind = TensorForm::Kind;
  static const MechanismForm form = {
      .inputs = {{"a", "L D", "annotations, one of which is looked at"},
                 {"state", "H", "the state of the decoder"},
                 {"w_a", "A D", "of the energies, for annotations", Kind::shared},
                 {"w_h", "A H", "of the energies, for the state", Kind::shared},
                 {"v", "A", "v of the energies", Kind::shared},
                 {"readout", "V D", "a row of scores for each word", Kind::shared},
                 {"readout_bias", "V", "", Kind::shared, true}},
      .tokens = {{.name = "target", .axes = "", .help = "the word y, from 0", .below = "V"}},
      .results = {{"log_p", "", "the mean of log p(y|a_i) under the weights"},
                  {"log_p_soft", "", "log p(y|sum_i weights_i a_i)"},
                  {"log_p_each", "L", "log p(y|a_i)"},
                  {"entropy", "", "of the weights, in nats"},
                  {"weights", "L", "the probability of each annotation"}},
      .lengths = {{"length", "L"}}};
  return form;
}

}  // namespace attn::mechanisms
