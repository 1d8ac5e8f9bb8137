#pragma once

#include "mechanisms/form.hpp"

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
                  {"penalty", "", "|A A' - I|^2, the square of Frobenius' norm"},
                  {"diagonal", "", "the mean of the diagonal of A A'"},
                  {"off_diagonal", "", "the mean of the rest of A A'; 0 for one hop"}},
      .lengths = {{"length", "T"}}};
  return form;
}

}  // namespace attn::mechanisms
