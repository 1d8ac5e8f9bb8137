// attn-view: a page to look at attention.

#include "attn_view/view_tool.hpp"
#include "common/frame/sections.hpp"
#include "common/options/dataset_words.hpp"
#include "common/options/score_options.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/process/tool_main.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("attn-view", "Makes a page to look at attention", cli::Role::inspect);
  d.about(
      "Writes one HTML file that any browser opens without a network: which heads ignore which "
      "keys, the text with the attention that each token receives, and the weights under unas, "
      "dnas and their mixture hnas. The weights are computed from q and k, with the score options "
      "that the bundle records.");
  d.section("Page");
  d.text("output", "FILE", "Writes the page to FILE; \"-\" is standard output.", "-")
      .letter('o')
      .flag("force", "Replaces an existing FILE.")
      .size("size", "SIZE",
            "Most bytes of weights in the page: two bytes for each query, key and scheme. The "
            "heads with the largest share of keys explained away come first, then those with the "
            "least column sum per query. Every head has its statistics.",
            "16M")
      .number("epsilon", "E", "Threshold below which a key counts as explained away.",
              cli::Declaration::Range::positive(), 1e-8)
      .integer("min-queries", "N",
               "Number of queries for a meaningful column sum of a key: under a causal mask, the "
               "last keys have fewer.",
               1, Index{1} << 40)
      .default_words("a tenth of the queries of a head's longest sequence, at least 1")
      .text("heads", "LIST",
            "Shows only these heads of the queries, such as 0,3,8:12,-1: places along the last of "
            "the leading axes, in every group.")
      .default_words("all");
  d.section("Scores");
  declare_score_options(d, true, ScoreUse::unas_and_dnas);
  declare_groups(d);
  d.several_inputs();
  declare_score_datasets(d);
  declare_energy_datasets(d);
  d.dataset("sink", "(), (H) or (B, H)",
            "a logit without a value; its exponential joins the sum of each row")
      .dataset("tokens", "(Lk) or (B, Lk)", "the tokens; without them, positions are shown")
      .dataset("relative_deviation", "(..., Lq)", "shown by head, if lambda-solve has made it");
  d.formula("c_j = sum_i weight_ij")
      .formula("key j is explained away:  c_j < epsilon")
      .formula("hnas = u dnas + (1 - u) unas");
  d.report_member("heads, heads_with_weights", "how many")
      .report_member("weight_bytes", "the bytes of the weights in the page");
  d.reference(explain_away_reference).reference(doubly_normalized_reference);
  d.example("attn-view dump.h5 -o view.html", "All layers and heads of a model's dump.");
  d.example("attn-view --heads 0,3 --size 1G layer3.h5 -o view.html",
            "Two heads with all their weights.");
  d.exit_status(1, "");
  return d;
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run_view,
                                attn::tools::numeric_libraries);
}
