// hard-attention: a word from a single vector that attention chooses; gradients by enumeration of
// all choices, or from samples.

#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "hard_attention/sampled_gradients.hpp"
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
      "annotations, by enumeration, so that its gradients are exact. log_p_soft is the "
      "log-likelihood where the word is predicted from the mean annotation, as in soft attention.");
  d.about(
      "With --samples, gradients of log_p are estimates instead, as training by REINFORCE uses "
      "them, and a table shows what its devices do. A baseline changes the variance of the "
      "estimate but not its mean, the exact gradient. The others change the mean: --entropy adds "
      "the gradient of the entropy, --soft-share puts the gradient of log_p_soft in place of a "
      "share, and --reward scales the part that goes through the weights. Gradients of other "
      "results than log_p stay exact. Samples depend on the seed and on the number of the sequence "
      "in INPUT, or in its group, but not on threads or on other sequences.");
  d.section("Results");
  declare_mechanism(d, mechanisms::hard_form());
  declare_sampling(d);
  declare_sections(d, "sequences");
  declare_restart(d);
  d.formula("e_i = v' tanh(w_a a_i + w_h state),   weights = softmax(e)")
      .formula("log p(y|z) = log softmax(readout z + readout_bias)_y,   y = target")
      .formula("log_p = sum_i weights_i log p(y|a_i)")
      .formula("log_p_soft = log p(y|sum_i weights_i a_i)")
      .formula("--samples: with s_n drawn by weights, R_n = log p(y|a_s_n), grad log_p is")
      .formula("(1/N) sum_n [grad R_n + reward (R_n - b) grad log weights_s_n]")
      .formula("or, with the probability soft-share, grad log_p_soft;")
      .formula("--entropy adds entropy grad H to both, H the entropy of the weights")
      .formula("b* = E[R |g|^2] / E|g|^2,   g = d log weights_s / d e, of one sample s")
      .report_member("sequences, axes", "how many, and the lengths of the axes")
      .report_member("log_p, log_p_soft, entropy", "mean, least and largest over the sequences")
      .report_member("estimates",
                     "with --samples: an array for no device, each device by itself, and all "
                     "together, of figures of the estimate of the gradient with respect to e from "
                     "one sample (N = 1); each sample draws whether it takes the soft gradient")
      .report_member("estimates: devices", "none, baseline, entropy, soft, all")
      .report_member("estimates: variance, exact_variance",
                     "the variance of the samples, and by enumeration (--enumerate), summed over "
                     "e; means over the sequences")
      .report_member("estimates: bias",
                     "the largest distance of the mean of N samples from the exact gradient, over "
                     "all e_i and sequences, in standard errors of that mean")
      .report_member("estimates: exact_bias",
                     "the distance of the expected value from the exact gradient (--enumerate), "
                     "mean over the sequences; 0 to rounding for none and baseline with --reward 1")
      .report_member("estimates: b, best_b",
                     "the baseline, and b*: means over the sequences. A baseline lowers the "
                     "variance of a sequence exactly where 0 < b/b* < 2");
  d.reference(
       "K. Xu, J. Ba, R. Kiros, K. Cho, A. Courville, R. Salakhutdinov, R. Zemel, Y. Bengio: Show, "
       "Attend and Tell: Neural Image Caption Generation with Visual Attention. ICML 2015. "
       "arXiv:1502.03044.")
      .reference(
          "R. J. Williams: Simple Statistical Gradient-Following Algorithms for Connectionist "
          "Reinforcement Learning. Machine Learning 8, 1992.")
      .reference(mechanisms_reference);
  d.example("hard-attention steps.h5 -o words.h5", "Hard and soft log-likelihoods of all steps.");
  d.example("hard-attention --emit grad_w_a,grad_w_h -i grad_log_p=g.npy in.h5 -o out.h5",
            "Exact gradients of the energies' weights.");
  d.example("hard-attention --samples 100000 --enumerate --entropy 0.1 steps.h5 -o words.h5",
            "What a running baseline and the entropy do to the variance of one sample.");
  d.exit_status(1, "");
  return d;
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments&) {
    return mechanisms::hard_form();
  }
  static Settings settings(const cli::Arguments& arguments) { return sampling_settings(arguments); }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments&) {
    return mechanisms::Hard::make<T>();
  }
  template <class T>
  static std::unique_ptr<MechanismEstimate<T>> estimate(const cli::Arguments& arguments) {
    const auto options = sampling_options(arguments);
    return options ? std::make_unique<SampledGradients<T>>(*options) : nullptr;
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries);
}
