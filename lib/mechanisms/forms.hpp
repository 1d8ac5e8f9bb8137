#pragma once

#include <string>
#include <vector>

#include "mechanisms/alignment_form.hpp"
#include "mechanisms/coattention_form.hpp"
#include "mechanisms/decomposable_form.hpp"
#include "mechanisms/hard_form.hpp"
#include "mechanisms/intra_attention_form.hpp"
#include "mechanisms/multi_view_form.hpp"
#include "mechanisms/over_attention_form.hpp"
#include "mechanisms/structured_form.hpp"

/// What each mechanism reads and computes. Formulas are in the header of the mechanism. These files
/// need no mathematics, so that tools that only need names include them, too.
namespace attn::mechanisms {

/// A tool with its possible inputs and results.
struct ToolForm {
  std::string tool;
  const MechanismForm* form = nullptr;
  /// Settings of the tool that concern only its gradients.
  std::vector<std::string> gradient_settings = {};
};

inline const std::vector<ToolForm>& tool_forms() {
  static const std::vector<ToolForm> forms = {
      {"intra-attention", &intra_attention_form(Fusion::deep)},
      {"structured-attention", &structured_form()},
      {"alignment-attention", &alignment_form()},
      {"decomposable-attention", &decomposable_form()},
      {"coattention", &coattention_form()},
      {"attention-over-attention", &over_attention_form()},
      {"hard-attention",
       &hard_form(),
       {"samples", "seed", "baseline", "reward", "entropy", "soft_share"}},
      {"multi-view", &multi_view_form(HybridForm::input)}};
  return forms;
}

}  // namespace attn::mechanisms
