// coattention: a question and a document attend to each other, and a decoder points at the answer.

#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "mechanisms/coattention.hpp"
#include "mechanisms/coattention_form.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("coattention",
                     "Reads a document and a question together, and points at the answer",
                     cli::Role::transform);
  d.about(
      "One LSTM reads both texts. Each position of the question then attends to the document, and "
      "each of the document to the question and to what the question has found. A sentinel, a "
      "trained last row of either side, receives attention where nothing else fits. A "
      "bidirectional LSTM reads the result again: the encoding.");
  d.about(
      "With w_decoder and the weights of two networks, for start and end, a decoder then looks for "
      "the answer. It begins with the whole document as span, scores all positions given the "
      "vectors at both ends of the span, and goes on from the best start and end, until neither "
      "changes. Rows of iterations that were not made are 0. With target, the loss is the cross "
      "entropy of its start and end, summed over all iterations; gradients hold the spans fixed. "
      "In an empty document, iterations, span and loss are 0.");
  d.section("Decoder");
  d.integer("iterations", "I", "The most iterations.", 1, 1000, 4);
  d.choice("end", {"any", "after-start"},
           "Which ends are considered: any, or only ends from the new start on.", "any");
  d.section("Results");
  declare_mechanism(d, mechanisms::coattention_form());
  declare_sections(d, "sequences");
  declare_restart(d);
  d.formula("D, Q': states of the LSTM (w, b), then sentinel_d, sentinel_q")
      .formula("Q = tanh(Q' w_question' + b_question), for all N+1 rows")
      .formula("C^Q = softmax(Q D') D,   C^D = softmax(D Q') [Q, C^Q]")
      .formula("u = BiLSTM([D, C^D]), without the row of the sentinel")
      .formula("h <- LSTM(h, [u_s; u_e]),   r = tanh(start_w [h; u_s; u_e])")
      .formula("m1 = max_p(start_w1 [u_t; r] + start_b1)")
      .formula("m2 = max_p(start_w2 m1 + start_b2)")
      .formula("score_t = max_p(start_w3 [m1; m2] + start_b3), likewise for the end")
      .formula("log p = log softmax over t,   s, e <- argmax; at first 0 and M - 1")
      .report_member("sequences, axes", "how many, and the lengths of the axes")
      .report_member("iterations, loss", "mean, least and largest over the sequences");
  d.reference(
       "C. Xiong, V. Zhong, R. Socher: Dynamic Coattention Networks for Question Answering. ICLR "
       "2017. arXiv:1611.01604.")
      .reference(mechanisms_reference);
  d.example("coattention --emit encoding,weights_d texts.h5 -o encoded.h5",
            "What each position of the document looks at in the question.");
  d.example("coattention --end after-start --iterations 8 texts.h5 -o answers.h5",
            "The answers, none of which ends before it starts.");
  d.exit_status(1, "");
  return d;
}

mechanisms::Decoding decoding_of(const cli::Arguments& arguments) {
  return {.iterations = *arguments.integer("iterations"),
          .end_after_start = arguments.text("end") == "after-start"};
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments& arguments) {
    static mechanisms::MechanismForm form = mechanisms::coattention_form();
    form.chosen = {{"I", decoding_of(arguments).iterations}};
    return form;
  }
  static Settings settings(const cli::Arguments& arguments) {
    return {{"iterations", decoding_of(arguments).iterations}, {"end", arguments.text("end")}};
  }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments& arguments) {
    return mechanisms::Coattention::make<T>(decoding_of(arguments));
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries);
}
