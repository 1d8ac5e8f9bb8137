// intra-attention: a recurrent network whose steps attend to all earlier ones.

#include <map>

#include "common/mechanisms/mechanism_tool.hpp"
#include "common/options/dataset_words.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"
#include "mechanisms/intra_attention.hpp"
#include "mechanisms/intra_attention_form.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("intra-attention",
                     "Computes a recurrent network whose steps attend to all earlier ones",
                     cli::Role::transform);
  d.about(
      "The cell of a long short-term memory reads weighted means of all earlier states and "
      "memories in place of the last ones. With --fusion, each step attends to a source sequence "
      "as well: shallow writes the means of its states as fused; deep adds the means of its "
      "memories to the memory, through a gate. Without --fusion, the datasets from source_h on are "
      "not read; w_r is only for deep.");
  d.section("Mechanism");
  d.choice("fusion", {"none", "shallow", "deep"}, "How a step uses the source.", "none");
  d.section("Results");
  declare_mechanism(d, mechanisms::intra_attention_form(mechanisms::Fusion::deep));
  declare_sections(d, "sequences");
  declare_restart(d);
  d.formula("a_i = v' tanh(w_h h_i + w_x x_t + w_prev h~_t-1), i < t,   s = softmax(a)")
      .formula("(h~_t, c~_t) = sum_i s_i (h_i, c_i), zeros at the first step")
      .formula("i, f, o = sigmoid, c^ = tanh of w [h~_t; x_t] + b")
      .formula("c_t = f c~_t + i c^ (deep: + r alpha~_t),   h_t = o tanh(c_t)")
      .formula("fusion: p = softmax_j of u' tanh(u_h source_h_j + u_x x_t + u_prev fused_t-1)")
      .formula("fused_t = sum_j p_j source_h_j,   alpha~_t = sum_j p_j source_c_j")
      .formula("r = sigmoid(w_r [fused_t; x_t])")
      .report_member("sequences, axes", "how many, and the lengths of the axes");
  d.reference(
       "J. Cheng, L. Dong, M. Lapata: Long Short-Term Memory-Networks for Machine Reading. EMNLP "
       "2016. arXiv:1601.06733.")
      .reference(mechanisms_reference);
  d.example("intra-attention sequences.h5 -o states.h5", "The states of all steps.");
  d.example("intra-attention --fusion deep --emit h,source_weights pairs.h5 -o fused.h5",
            "What each step looks at in the source.");
  d.exit_status(1, "");
  return d;
}

mechanisms::Fusion fusion_of(const cli::Arguments& arguments) {
  static const std::map<std::string, mechanisms::Fusion> words = {
      {"none", mechanisms::Fusion::none},
      {"shallow", mechanisms::Fusion::shallow},
      {"deep", mechanisms::Fusion::deep}};
  return words.at(arguments.text("fusion"));
}

struct Tool {
  static const mechanisms::MechanismForm& form(const cli::Arguments& arguments) {
    return mechanisms::intra_attention_form(fusion_of(arguments));
  }
  static Settings settings(const cli::Arguments& arguments) {
    return {{"fusion", arguments.text("fusion")}};
  }
  template <class T>
  static std::unique_ptr<mechanisms::Mechanism<T>> make(const cli::Arguments& arguments) {
    return mechanisms::IntraAttention::make<T>(fusion_of(arguments));
  }
};

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  using namespace attn::tools;
  return tool_main(argc, argv, declare(), MechanismTool<Tool>::run, numeric_libraries);
}
