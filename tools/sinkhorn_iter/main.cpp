// sinkhorn-iter: a plan of given marginals, by Sinkhorn's iterations, and what certifies it.

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/bundles.hpp"
#include "common/numeric_libraries.hpp"
#include "common/section_tool.hpp"
#include "sinkhorn_iter/transport_heads.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("sinkhorn-iter",
                     "Finds the plan of given marginals: entropic optimal transport",
                     cli::Role::transform);
  d.about(
      "Solves min <P, C> + E sum P (log P - 1) over the plans P >= 0 with row sums a and column "
      "sums b, by Sinkhorn's iterations on the potentials f and g of P = exp((s - g) - f), s = "
      "-C/E: one pass over the scores each. Reads the dataset cost (..., Lq, Lk), where inf "
      "forbids, with --epsilon; or scores; or makes scores of q and k, never all of them at once: "
      "with --epsilon points whose cost is |q-k|^2. Leading axes are problems of their own. a "
      "(..., Lq) and b (..., Lk) default to 1/Lq and 1/Lk for a cost, to 1 and Lq/Lk for scores, "
      "lines with nothing allowed left out. mask, bias and key_length are as attn-compute has "
      "them.");
  d.about(
      "The report has the value <P, C> (of scores: <P, s>), the dual -E (<a, f> + <b, g> + sum P) "
      "and a gap: the optimum is at most dual + gap. Any plan of the right marginals proves E "
      "KL(plan, P) to be one; it is bounded without a subtraction. Where pairs are forbidden it is "
      "null for a P far from its marginals, and unless there is a tolerance. In float32 both are "
      "up to the rounding of P. Scores have E = 1.");
  d.section("Transport");
  d.number("epsilon", "E", "Of a cost: scores are -cost/E.", cli::Declaration::Range::positive());
  d.integer("iterations", "T",
            "Exactly T, or at most T where --tolerance is given (1000 unless given).", 1,
            Index{1} << 40);
  d.number(
      "tolerance", "E",
      "Stop when the L1 error of both marginals is at most E. Unless --iterations is given "
      "alone: 1e-10, in float32 1e-6 times the larger of 1 and the plan's total. Whether "
      "there is such a plan is looked at first; sums of a and b that differ by up to half of a "
      "given E are taken, b scaled (result: rescaled), and count for the error.",
      {0, std::numeric_limits<double>::infinity(), true, true});
  d.number("relax", "W",
           "Over-relaxed iterations, for fewer of them: 1 is plain, 1.5 to 1.9 where it is slow. "
           "Plain again where that leads nowhere; the answer is the same.",
           {1, 2, false, true}, 1.0);
  d.flag("anneal",
         "Begin with a larger epsilon and lower it: fewer iterations for a small one. The answer "
         "is the same.");
  d.choices("emit", {"plan", "row_potential", "col_potential", "error"},
            "What to write. plan takes Lq x Lk numbers; error (..., T) is the L1 error by "
            "iteration, nan after a problem's last; with --anneal the rough ones come first.",
            "row_potential,col_potential,error");
  d.section("Scores");
  declare_score_options(d, false, ScoreUse::transport);
  declare_sections(d);
  d.example("sinkhorn-iter --epsilon 0.01 --emit plan cost.h5 -o plan.h5",
            "a plan of uniform marginals");
  d.example("sinkhorn-iter --epsilon 0.05 -i q=x.npy -i k=y.npy -o potentials.h5",
            "points: exponentials are kept in what --memory has room for, or made anew");
  d.example("sinkhorn-iter layer3.h5 | explain-away-stats --scheme unas,stored",
            "softmax beside what is doubly stochastic");
  d.exit_status(1, "not converged; the results are written, attn_status says so");
  d.exit_status(4,
                "no plan has these marginals, or only one with zeros where pairs are allowed; "
                "scores beyond float32");
  return d;
}

class Transport : public SectionTool<TransportTask> {
  using SectionTool::SectionTool;

  void report_cost(const TransportTask& task) override {
    report_transport_cost(arguments(), task, report());
  }

  void begin(Index problems) override {
    progress_.emplace(arguments(), "sinkhorn", static_cast<double>(problems), "problems");
  }

  void compute(const TransportTask& task, const std::string& /*group*/,
               std::optional<io::OutputBundle> results) override {
    const TransportResults found =
        solve_section(arguments(), task, *std::move(results), *progress_, report());
    const cli::Outcome one = conclude_transport(task, found, report());
    if (!worst_ || one.status > worst_->status) worst_ = one;
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    groups.conclude(sections().each(), report());
    cli::Outcome outcome = *worst_;
    if (sections().each()) {
      outcome.summary = fmt::format("{} problems in {} groups, the worst: {}", problems(),
                                    groups.size(), worst_->summary);
    }
    return outcome;
  }

  std::optional<cli::Progress> progress_;
  std::optional<cli::Outcome> worst_;  // of the sections so far
};

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  return Transport(arguments, report).run();
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run,
                                attn::tools::numeric_libraries());
}
