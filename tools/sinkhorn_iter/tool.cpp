// sinkhorn-iter: a plan with given marginals, by Sinkhorn's iterations, and its certificate.

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/section_tool.hpp"
#include "common/frame/tool.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/runs/ranks.hpp"
#include "sinkhorn_iter/bulk.hpp"
#include "sinkhorn_iter/divergence.hpp"
#include "sinkhorn_iter/gradients.hpp"
#include "sinkhorn_iter/transport_steps.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("sinkhorn-iter",
                     "Finds the plan with given marginals: entropic optimal transport",
                     cli::Role::transform);
  d.about(
      "Minimises <P, C> + E sum P (log P - 1) over plans P >= 0 with row sums a and column sums b, "
      "by Sinkhorn's iterations on the potentials f and g of P = exp((s - g) - f), with s = -C/E. "
      "Each iteration is one pass over the scores. The scores come from the dataset cost (..., Lq, "
      "Lk; inf forbids a pair) with --epsilon, from the dataset scores, or from q and k; scores of "
      "q and k are never all stored at once. With --epsilon, q and k are points with cost |q-k|^2. "
      "--energy euclidean, l1 and cosine have the costs |q-k|, sum |q-k| and 1 - cos(q, k). "
      "Leading "
      "axes are independent problems. The marginals a (..., Lq) and b (..., Lk) default to 1/Lq "
      "and "
      "1/Lk for a cost and to 1 and Lq/Lk for scores, without rows and columns where nothing is "
      "allowed. "
      "mask, bias and lengths are as in attn-compute.");
  d.about(
      "The report has the value <P, C> (for scores: <P, s>), the dual value -E (<a, f> + <b, g> + "
      "sum P) and a gap: the optimum is at most dual + gap. The gap is a bound on E KL(Q, P) for a "
      "plan Q with the right marginals, computed without cancellation. With forbidden pairs, the "
      "gap is null if P is far from its marginals or there is no tolerance. In float32 dual and "
      "gap are subject to the rounding of P. For scores E = 1. With --unbalanced, value, primal "
      "and dual are those of the unbalanced problem, and the gap is primal - dual, the sum of "
      "E R KL(sums, their targets) over both sides; the optimum is again at most dual + gap. With "
      "an inf, the sums are of the plan scaled to that side's masses, whose term is E KL(masses, "
      "sums before scaling).");
  d.about(
      "exact minimises <P, C> alone, by the network simplex if --memory has room for all costs, "
      "else "
      "by annealing: epsilon falls by halves, each solution starting the next, until bounds are "
      "close. Both certify the value <P, C> of the plan, which has its marginals, by the dual "
      "sum_i a_i min_j (C_ij + g_j) - <b, g>, which no plan can go below. The potentials belong to "
      "this bound: cost + f + g >= 0 for all pairs, in units of the cost. The simplex leaves out "
      "pairs of infinite cost; annealing needs a finite cost of every pair. The two give plans of "
      "the same value up to the gap, but other bits: --solver names one of them.");
  d.about(
      "divergence computes OT(a, b) - OT(a, a)/2 - OT(b, b)/2 with OT = min <P, C> + E KL(P, "
      "ab'), of points, or of a and b on a common support with a square cost. lower and upper "
      "bound it; sharp_divergence has <P, C> in place of OT. dual_grad_NAME are then derivatives "
      "of the divergence. The three problems share all options. With --unbalanced RHO, a and b may "
      "have other sums: OT then has the terms of RHO, S also has E/2 (sum a - sum b)^2, and "
      "primal and dual are OT - E sum a sum b.");
  d.about(
      "barycentre averages histograms: it finds the masses p for which sum_k w_k OT(p, a_k) is "
      "least, where OT is the problem above with P >= 0 between p and a_k. The dataset a (..., K, "
      "Lk) has the histograms, which need equal sums, and histogram_weights (..., K) their weights "
      "w, which are divided by their sum. p is on the queries: with a common support, cost is "
      "square. primal, dual and value are sums over k with the weights w_k, the optimum is at most "
      "dual + gap again, and the plan is sum_k w_k P_k, the derivative with respect to the cost. "
      "Every pair needs a finite cost.");
  d.about(
      "bulk runs a fixed number of iterations on many small problems at once: scores (..., m, n), "
      "m and n at most 64, such as the matrices of residual connections, one for each token. Each "
      "has its own error, the L1 error of its plan. A problem is solved by factors of "
      "exponentials if its scores have a range of at most 40, else by logarithms in float64; the "
      "report counts both. Problems are not examined for feasibility: where no plan exists, the "
      "error says so. grad_scores is then the gradient through the iterations, of the L of "
      "grad_plan (..., m, n).");
  d.verbs("VERB",
          {{"", "Solves problems of any size, one after the other, and certifies them."},
           {exact_verb, "Solves problems without regularisation, up to a gap that it bounds."},
           {divergence_verb, "Computes Sinkhorn's divergence, which is 0 for equal measures."},
           {barycentre_verb, "Averages histograms: finds the one nearest to all."},
           {bulk_verb, "Solves many small problems at once."}});
  d.section("Transport");
  d.for_verbs({"", divergence_verb, barycentre_verb});
  d.number("epsilon", "E", "Regularisation of a cost: scores are -cost/E.",
           cli::Declaration::Range::positive());
  d.for_verbs({exact_verb});
  d.choice("solver", {"auto", "simplex", "annealing"},
           "The simplex holds all costs and reaches the optimum up to rounding. Annealing takes "
           "memory for the lines only.",
           "auto");
  d.number(
      "gap", "G",
      "The cost of the plan may exceed the lower bound by G times the cost of the plan, or by the "
      "rounding of costs, 1e-14 (in float32 1e-6) times the largest cost and the mass. Annealing "
      "stops once it reaches this gap; it reaches about 1e-8 of the largest cost, in float32 1e-5.",
      {0, 1, true, true}, 1e-4);
  d.for_verbs({});
  d.integer("iterations", "T", "Runs exactly T iterations; with --tolerance, at most T.", 1,
            Index{1} << 40)
      .default_words("at most 1000; annealing: at most 100000; bulk: 20");
  d.for_verbs({"", divergence_verb, barycentre_verb});
  d.number(
       "tolerance", "E",
       "Stops when the L1 error of both marginals is at most E. Feasibility is checked first. If E "
       "is given, the sums of a and b may differ by up to E/2: b is then rescaled (reported as "
       "rescaled), and the difference counts as error.",
       {0, std::numeric_limits<double>::infinity(), true, true})
      .default_words(
          "1e-10 times the plan's total, but at most 1e-10; in float32 1e-6 times the total; no "
          "tolerance if only --iterations is given");
  d.for_verbs({"", exact_verb, divergence_verb});
  d.number("relax", "W",
           "Over-relaxation, which can save iterations: 1 is the plain iteration; try 1.5 to 1.9 "
           "if it is slow. Reverts to plain iterations if it stalls. The answer is the same.",
           {1, 2, false, true})
      .default_words("1; annealing: 1.8");
  d.for_verbs({"", divergence_verb});
  d.text("unbalanced", "RHO[:RHO]",
         "Lets the plan miss its marginals at a price: adds RHO KL(row sums, a) + RHO KL(column "
         "sums, b) to the problem, with the second RHO for b, KL(x, y) = sum x log(x/y) - x + y. a "
         "and b may then have different sums, and without inf any mask has a plan. RHO > 0, in "
         "units of the "
         "cost; rounding allows RHO RHO/(RHO + RHO) up to 2^30 epsilon. One RHO may be inf: the "
         "sums of that side are exact. divergence: one finite RHO for all marginals. The error is "
         "the L1 distance of the sums from a exp(f/R) and b exp(g/R), R = RHO/E.");
  d.for_verbs({"", divergence_verb});
  d.flag("anneal",
         "Begins with a larger epsilon and lowers it, which saves iterations if epsilon is small. "
         "The answer is the same.");
  d.for_verbs({""});
  d.choice(
      "start", {"zero", "stored"},
      "Where iterations begin: with f = 0, or with the dataset col_potential, g as an earlier "
      "run with this epsilon wrote it; f follows from it, so that the last iteration of that "
      "run is made "
      "again. A solution takes one iteration. Without --unbalanced, a mean of g above 65536 is "
      "taken off. Not with --anneal.",
      "zero");
  d.for_verbs({"", bulk_verb});
  d.choice(
       "gradient", {"implicit", "unrolled"},
       "What grad_NAME differentiates. implicit: the solution, by the equations that it solves. "
       "unrolled: the iterations that ran, whether they have converged or not; memory grows "
       "with their number. Not with --relax, --anneal, --unbalanced and --start.")
      .default_words("implicit; bulk: unrolled");
  d.for_verbs({bulk_verb});
  declare_bulk(d);
  d.for_verbs({});
  d.choices(
      "emit",
      {"plan", "barycentre", "row_potential", "col_potential", "row_self_potential",
       "col_self_potential", "error", "dual_grad_a", "dual_grad_b", "dual_grad_q", "dual_grad_k",
       "dual_grad_histogram_weights", "grad_a", "grad_b", "grad_q", "grad_k", "grad_cost",
       "grad_scores", "grad_histogram_weights"},
      "Results to write. The plan of one problem is Lq x Lk numbers. error (..., T) is the L1 "
      "error after each iteration, nan after a problem's last one; with --anneal it begins with "
      "the iterations at larger epsilon. bulk: error (...) is the error of the plan. "
      "dual_grad_NAME is the derivative of the dual value with respect to the dataset NAME, for "
      "each problem; at the solution, it is the derivative of the optimum. With respect to the "
      "cost, this is the plan. grad_NAME (not with exact; bulk: grad_scores) is the derivative "
      "with respect "
      "to NAME of a number L that depends on the solution. Datasets such as grad_plan and "
      "grad_row_potential hold the derivatives of L with respect to results.",
      "barycentre,row_potential,col_potential,error");
  d.for_verbs({"", exact_verb, divergence_verb, barycentre_verb});
  d.section("Scores");
  declare_score_options(d, false, ScoreUse::transport);
  d.for_verbs({});
  declare_sections(d, "problems");
  d.for_verbs({"", exact_verb, divergence_verb, barycentre_verb});
  declare_ranks(d);
  declare_restart(d);
  d.for_verbs({});
  declare_transport_datasets(d);
  d.example("sinkhorn-iter --epsilon 0.01 --emit plan cost.h5 -o plan.h5",
            "A plan with uniform marginals.");
  d.example("sinkhorn-iter --epsilon 0.05 -i q=x.npy -i k=y.npy -o potentials.h5",
            "Point clouds; exponentials are kept as far as --memory allows, else recomputed.");
  d.example("sinkhorn-iter layer3.h5 | explain-away-stats --scheme unas,stored",
            "Compare softmax with doubly stochastic weights.");
  d.example("sinkhorn-iter exact --emit plan -i q=x.npy -i k=y.npy -o plan.h5",
            "The cheapest plan of point clouds.");
  d.example("sinkhorn-iter divergence --epsilon 0.05 -i q=x.npy -i k=y.npy -o potentials.h5",
            "How far two point clouds are apart.");
  d.example("sinkhorn-iter barycentre --epsilon 0.01 cost.h5 -i a=histograms.npy -o mean.h5",
            "The barycentre of the rows of histograms.npy.");
  d.example("sinkhorn-iter bulk --emit plan,error --chain scores.h5 -o plans.h5",
            "20 iterations on each small matrix, and the gain of their products over layers.");
  d.example("sinkhorn-iter bulk --order rows --against kernel.h5 scores.h5 -o right.h5",
            "Whether the plans and gradients of a kernel are right.");
  d.exit_status(1,
                "not converged, or gradients through a plan that is no solution; the results are "
                "written with attn_status not_converged. bulk --against: a matrix differs");
  d.exit_status(4,
                "no plan has these marginals, or every such plan is zero at some allowed pair; or "
                "scores exceed float32");
  return d;
}

class Transport : public SectionTool<TransportTask> {
  using SectionTool::SectionTool;

  std::string unit() const override { return "problem"; }

  void check(const TransportTask& task) override {
    if (task.emits("plan")) require_no_checkpoint(arguments(), "plan");
    if (const char* const by_pair = pair_gradient(task)) {
      require_no_checkpoint(arguments(), by_pair);
    }
    require_gradients(task);
    if (task.diverges) require_divergence(task);
  }

  void report_cost(const TransportTask& task) override {
    report_transport_cost(arguments(), task, report());
  }

  void begin(Index problems) override {
    progress_.emplace(arguments(), "sinkhorn", static_cast<double>(problems), "problems");
  }

  void compute(const TransportTask& task, const std::string& /*group*/,
               std::optional<io::OutputBundle> results) override {
    const TransportResults found =
        solve_section(arguments(), task, *std::move(results), checkpoint(), *progress_, report());
    const cli::Outcome one = conclude_transport(task, found, report());
    if (!worst_ || one.status > worst_->status) worst_ = one;
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    groups.conclude(sections().several(), report());
    cli::Outcome outcome = *worst_;
    if (sections().several()) {
      outcome.summary = fmt::format("{} in {}, the worst: {}", cli::counted(problems(), "problem"),
                                    cli::counted(groups.size(), "group"), worst_->summary);
    }
    return outcome;
  }

  std::optional<cli::Progress> progress_;
  std::optional<cli::Outcome> worst_;  // of the sections so far
};

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.verb == bulk_verb) return bulk(arguments, report);
  return Transport(arguments, report).run();
}

}  // namespace

const ToolDefinition sinkhorn_iter = {declare, run, numeric_libraries};

}  // namespace attn::tools
