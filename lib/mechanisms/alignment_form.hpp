#pragma once

#include "mechanisms/form.hpp"

namespace attn::mechanisms {

inline const MechanismForm& alignment_form() {
  using Kind = TensorForm::Kind;
  static const MechanismForm form = {
      .inputs = {{"source", "I S", "e: encodings of the source words"},
                 {"target", "J G", "g: the state before each target word"},
                 {"w_source", "A S", "W_ae, for encodings", Kind::shared},
                 {"w_target", "A G", "W_ah, for states", Kind::shared},
                 {"v", "A", "v of the energies", Kind::shared},
                 {"w_position", "A 3", "W_ap, for positions", Kind::shared, true},
                 {"w_previous", "A 2*K+1", "W_am, for the row before", Kind::shared, true}},
      .tokens = {},
      .results = {{"context", "J S", "means of the encodings"},
                  {"weights", "J I", "the alignment; the rows have sums of 1"},
                  {"fertility", "I", "sums of the columns of the weights"}},
      .lengths = {{"source_length", "I"}, {"target_length", "J"}}};
  return form;
}

}  // namespace attn::mechanisms
