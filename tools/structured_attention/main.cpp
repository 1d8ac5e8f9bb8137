// structured-attention: several weighted means of a sequence, and how far they overlap.

#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "mechanisms/structured.hpp"
#include "mechanisms/structured_form.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("structured-attention",
                     "Computes several weighted means of a sequence, and their overlap",
                     cli::Role::transform);
  d.about(
      "Each of R hops has weights over the positions of a sequence, from the sequence alone: A = "
      "softmax(W2 tanh(W1 x')). The result is a matrix of R means. The penalty |A A' - I|^2 is 0 "
      "exactly if each hop looks at a single position, each at a different one; overlap is A A'.");
  d.section("Results");
  declare_mechanism(d, mechanisms::structured_form());
  declare_sections(d, "sequences");
  declare_restart(d);
  d.formula("A = softmax over positions of w2 tanh(w1 x'),   out = A x")
      .formula("overlap = A A',   penalty = |A A' - I|^2")
      .report_member("sequences, axes", "how many, and the lengths of the axes")
      .report_member("penalty, diagonal, off_diagonal",
                     "mean, least and largest over the sequences");
  d.reference(
       "Z. Lin, M. Feng, C. N. dos Santos, M. Yu, B. Xiang, B. Zhou, Y. Bengio: A Structured "
       "Self-attentive Sentence Embedding. ICLR 2017. arXiv:1703.03130.")
      .reference(mechanisms_reference);
  d.example("structured-attention sentences.h5 -o means.h5", "The means of all sentences.");
  d.example("structured-attention --emit grad_x,grad_w1 -i grad_out=g.npy in.h5 -o out.h5",
            "Gradients of a loss, from that with respect to out.");
  d.exit_status(1, "");
  return d;
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments&) {
    return mechanisms::structured_form();
  }
  static Settings settings(const cli::Arguments&) { return {}; }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments&) {
    return mechanisms::Structured::make<T>();
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries);
}
