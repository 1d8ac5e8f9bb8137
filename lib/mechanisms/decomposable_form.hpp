#pragma once

#include "mechanisms/form.hpp"

namespace attn::mechanisms {

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

}  // namespace attn::mechanisms
