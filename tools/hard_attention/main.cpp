// hard-attention: a word from a single vector that attention chooses, all choices enumerated.

#include "common/dataset_words.hpp"
#include "common/mechanism_tool.hpp"
#include "common/numeric_libraries.hpp"
#include "mechanisms/hard.hpp"
#include "mechanisms/hard_form.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("hard-attention",
                     "Predicts a word from one vector of several, chosen with probabilities",
                     cli::Role::transform);
  d.about(
      "One step of a decoder that draws a single annotation, with the probabilities in weights, "
      "and predicts a word from it. log_p is the mean log-likelihood of the target over all "
      "annotations, by enumeration, so that its gradients are exact: estimates from samples "
      "(REINFORCE) have them as their mean. log_p_soft is the log-likelihood where the word is "
      "predicted from the mean annotation, as in soft attention.");
  d.section("Results");
  declare_mechanism(d, mechanisms::hard_form());
  declare_sections(d);
  d.formula("e_i = v' tanh(w_a a_i + w_h state),   weights = softmax(e)")
      .formula("log p(y|z) = log softmax(readout z + readout_bias)_y,   y = target")
      .formula("log_p = sum_i weights_i log p(y|a_i)")
      .formula("log_p_soft = log p(y|sum_i weights_i a_i)")
      .report_member("sequences, axes", "how many, and the lengths of the axes")
      .report_member("log_p, log_p_soft, entropy", "mean, least and largest over the sequences");
  d.reference(
       "K. Xu, J. Ba, R. Kiros, K. Cho, A. Courville, R. Salakhutdinov, R. Zemel, Y. Bengio: Show, "
       "Attend and Tell: Neural Image Caption Generation with Visual Attention. ICML 2015. "
       "arXiv:1502.03044.")
      .reference(mechanisms_reference);
  d.example("hard-attention steps.h5 -o words.h5", "Hard and soft log-likelihoods of all steps.");
  d.example("hard-attention --emit grad_w_a,grad_w_h -i grad_log_p=g.npy in.h5 -o out.h5",
            "Exact gradients of the energies' weights.");
  d.exit_status(1, "");
  return d;
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments&) {
    return mechanisms::hard_form();
  }
  static Settings settings(const cli::Arguments&) { return {}; }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments&) {
    return mechanisms::Hard::make<T>();
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries());
}
