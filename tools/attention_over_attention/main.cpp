// attention-over-attention: which word of a document answers a question.

#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "mechanisms/over_attention.hpp"
#include "mechanisms/over_attention_form.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("attention-over-attention",
                     "Finds which words of a document a question points at", cli::Role::transform);
  d.about(
      "Each word of the question attends to the document (alpha). It gets a weight: the mean "
      "attention that the document pays to it (beta). s, the product of both, is a distribution "
      "over the positions of the document; p adds up the positions of each word, given the "
      "document's words as numbers.");
  d.section("Results");
  declare_mechanism(d, mechanisms::over_attention_form());
  declare_sections(d, "sequences");
  declare_restart(d);
  d.formula("E = document question',   alpha = softmax of E over the document")
      .formula("beta_j = mean over the document of softmax of E over the question")
      .formula("s_i = sum_j alpha_ij beta_j,   p_i = sum of s over all places of the word at i")
      .report_member("sequences, axes", "the number of documents, and the lengths of the axes");
  d.reference(
       "Y. Cui, Z. Chen, S. Wei, S. Wang, T. Liu, G. Hu: Attention-over-Attention Neural Networks "
       "for Reading Comprehension. ACL 2017. arXiv:1607.04423.")
      .reference(mechanisms_reference);
  d.example("attention-over-attention documents.h5 -o answers.h5",
            "The probability of each position, and of its word if the bundle has words.");
  d.exit_status(1, "");
  return d;
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments&) {
    return mechanisms::over_attention_form();
  }
  static Settings settings(const cli::Arguments&) { return {}; }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments&) {
    return mechanisms::OverAttention::make<T>();
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries);
}
