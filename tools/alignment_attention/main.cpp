// alignment-attention: attention of a target sequence to a source, with biases of word alignment,
// and measures of any weights as word alignments.

#include "alignment_attention/measure.hpp"
#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "mechanisms/alignment.hpp"
#include "mechanisms/alignment_form.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("alignment-attention",
                     "Computes attention with biases of word alignment, and measures alignments",
                     cli::Role::transform);
  d.about(
      "Each target word j attends to all source words i. Energies see positions (w_position), and "
      "so can favour the diagonal. They also see the previous word's weights within K places of i "
      "(w_previous), and so can favour steps of one size. Without these datasets the terms are "
      "absent. Row j of target is the state before word j. The fertility of a source word is the "
      "sum of the weights that it gets. A loss may depend on the weights, such as the agreement of "
      "two directions.");
  d.about(
      "measure reads the links A off any weights and compares them with the sure links S and the "
      "possible links P, which include S. match is the share of the target words that P links to "
      "their heaviest source word, mass the share of the weights on P.");
  d.verbs("VERB", {{"", "Computes the results of the mechanism."},
                   {measure_verb,
                    "Compares weights of any tool, or links, with links set by hand, and prints "
                    "the figures; also the agreement of the weights of two directions.",
                    cli::Role::inspect}});
  d.for_verbs({""});
  d.section("Results");
  declare_mechanism(d, mechanisms::alignment_form());
  d.for_verbs({measure_verb});
  declare_measure(d);
  d.for_verbs({});
  declare_sections(d, "sequences");
  d.for_verbs({""});
  declare_restart(d);
  d.for_verbs({});
  d.formula("f_ji = v' tanh(w_source e_i + w_target g_j + w_position psi + w_previous xi)")
      .formula("psi = [log(1+j), log(1+i), log(1+I)], from i = j = 1")
      .formula("xi = weights_j-1 from i-K to i+K; 0 beyond the ends and for j = 1")
      .formula("weights_j = softmax over i of f_j,   context = weights e")
      .formula("fertility_i = sum_j weights_ji")
      .formula("aer = 1 - (|A and S| + |A and P|)/(|A| + |S|)")
      .formula("precision = |A and P|/|A|,   recall = |A and S|/|S|")
      .formula("mass = sum of weights_ji at the links i-j of P / sum of all weights")
      .formula("agreement B = - sum_ji weights_ji reverse_weights_ij")
      .report_member("sequences, axes", "how many, and the lengths of the axes");
  d.reference(
       "T. Cohn, C. D. V. Hoang, E. Vymolova, K. Yao, C. Dyer, G. Haffari: Incorporating "
       "Structural Alignment Biases into an Attentional Neural Translation Model. NAACL 2016. "
       "arXiv:1601.01085.")
      .reference(mechanisms_reference);
  d.example("alignment-attention --emit weights,fertility pairs.h5 -o links.h5",
            "Which source words each target word looks at.");
  d.example("alignment-attention --emit grad_source -i grad_weights=g.npy in.h5 -o o.h5",
            "The gradient of a loss of the weights.");
  d.example("alignment-attention measure links.h5 --gold gold.txt",
            "Error rate and other figures of the weights, also with words moved.");
  d.example("alignment-attention measure --links out.txt --links-base 0 --gold gold.txt",
            "The same of links that another aligner found.");
  d.exit_status(1, "");
  return d;
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments&) {
    return mechanisms::alignment_form();
  }
  static Settings settings(const cli::Arguments&) { return {}; }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments&) {
    return mechanisms::Alignment::make<T>();
  }
};

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.verb == measure_verb) return measure(arguments, report);
  return MechanismTool<Tool>::run(arguments, report);
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), run, numeric_libraries);
}
