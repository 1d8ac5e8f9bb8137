// decomposable-attention: two sequences are aligned with each other, compared, and judged.

#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "mechanisms/decomposable.hpp"
#include "mechanisms/decomposable_form.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("decomposable-attention",
                     "Aligns two sequences with each other, compares them and scores the pair",
                     cli::Role::transform);
  d.about(
      "Each vector of one side is aligned with a mean of the other side (attend), both are "
      "compared position by position, and the sums of the comparisons are scored (aggregate). F, G "
      "and H are networks of two layers. No matrix of all pairs is stored unless the weights are "
      "requested.");
  d.section("Results");
  declare_mechanism(d, mechanisms::decomposable_form());
  declare_sections(d, "sequences");
  declare_restart(d);
  d.formula("e = F(a) F(b)',   beta = softmax(e) b,   alpha = softmax(e') a")
      .formula("scores = H([sum_i G([a_i; beta_i]); sum_j G([b_j; alpha_j])])")
      .formula("F(x) = relu(f2 relu(f1 x + f1_bias) + f2_bias), likewise G; H has one relu")
      .report_member("sequences, axes", "the number of pairs, and the lengths of the axes");
  d.reference(
       "A. P. Parikh, O. Taeckstroem, D. Das, J. Uszkoreit: A Decomposable Attention Model for "
       "Natural Language Inference. EMNLP 2016. arXiv:1606.01933.")
      .reference(mechanisms_reference);
  d.example("decomposable-attention pairs.h5 -o scored.h5", "The scores of all pairs.");
  d.example("decomposable-attention --emit beta,weights_a pairs.h5 -o aligned.h5",
            "What each position of a is aligned with.");
  d.exit_status(1, "");
  return d;
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments&) {
    return mechanisms::decomposable_form();
  }
  static Settings settings(const cli::Arguments&) { return {}; }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments&) {
    return mechanisms::Decomposable::make<T>();
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries);
}
