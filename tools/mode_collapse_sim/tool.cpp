// mode-collapse-sim: whether clusters of points merge when points attend to each other.

#include "common/frame/tool.hpp"
#include "common/options/cluster_options.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/runs/restart.hpp"
#include "common/shards/shard.hpp"
#include "mode_collapse_sim/collapse_curve.hpp"
#include "mode_collapse_sim/collapse_datasets.hpp"
#include "mode_collapse_sim/collapse_em.hpp"
#include "mode_collapse_sim/collapse_simulation.hpp"

namespace attn::tools {
namespace {

const std::vector<std::string> of_points = {"simulate", "em"};

void declare_points(cli::Declaration& d) {
  d.section("Points of simulate and em, unless INPUT has a dataset x");
  declare_clusters(d, of_points, of_points);
  d.seeded();
  d.only_with(of_points);
  d.integer("seeds", "N",
            "Number of sets of points, drawn with --seed and the following seeds: results have a "
            "leading axis of seeds.",
            1, Index{1} << 40);
  d.only_with(of_points);
  d.integer("steps", "T", "Number of steps.", 1, Index{1} << 40).default_words("4; for em 20");
  d.only_with(of_points);
  d.choices("emit",
            {"x", "label", "trajectory", "centre", "centre_distance", "spread", "modes",
             "log_likelihood", "variance", "prior"},
            "Results to write.")
      .default_words("all results of the verb");
  d.only_with(of_points);
  declare_shard(d, "the sets of points");
  d.only_with(of_points);
  d.for_verbs(of_points);
  declare_restart(d);
  d.for_verbs({});
}

cli::Declaration declare() {
  using cli::Role;
  cli::Declaration d(
      "mode-collapse-sim",
      "Shows which normalisation merges clusters of points that attend to each other",
      Role::optional_input);
  d.verbs(
      "VERB",
      {{"curve", "Distance between two groups of coinciding points after one step, in closed form.",
        Role::generator},
       {"simulate", "Iterates self-attention on clusters of points.", Role::optional_input},
       {"em", "Iterates EM for a Gaussian mixture; dnas is one step of EM.",
        Role::optional_input}});
  d.about(
      "curve: on a line, r times as many points lie at a as at -a. Computes the distance of the "
      "two "
      "means after one step of unas and of dnas, and the gap between these distances, without "
      "cancellation. Exit status 0 means that dnas keeps the groups at least as far apart as unas, "
      "up to rounding, for all values of --r and --a.");
  d.about(
      "simulate: each point x_i of a set is query, key and value, and moves to sum_j weight_ij "
      "x_j; --residual adds x_i. The points are drawn around --centres, as tensor-gen clusters "
      "x=... draws them (float64 unless --precision is f32), or read from the datasets x (..., N, "
      "d) and label (N) or (..., N), integers. Writes one group of results per scheme.");
  d.about(
      "em: fits a mixture of M normal distributions to the data x. Component i has the centre q_i, "
      "the prior b_i and the covariance S_i I, with the same variance S_i for all, or one for each "
      "(--estimate-variance=each, or a list of --model-variance). Computes in float64 for any type "
      "of x. With fixed or estimated priors, the likelihood never falls by more than "
      "a relative 1e-10; with dnas it may. Writes the group em.");
  declare_curve(d);
  declare_points(d);
  declare_simulation(d);
  declare_em(d);
  declare_collapse_datasets(d);
  d.example("mode-collapse-sim curve --r 1:1e7:200 --a 0.5,1,2 -o curve.h5",
            "Closed forms of DN 5.2 and EA App. E, and the peaks of their gap.");
  d.example(
      "mode-collapse-sim simulate --counts 500,50 --centres \"1.8,0.7;-1,-1\" \\\n"
      "      --variance 0.1 --seeds 100 --emit centre_distance -o runs.h5",
      "The unbalanced experiment over 100 seeds.");
  d.example(
      "tensor-gen clusters x=90x3 --counts 50,30,10 --centres \"2,0,0;0,2,0;0,0,2\" |\n"
      "      mode-collapse-sim simulate --energy gaussian - -o runs.h5",
      "The same for points from another program.");
  d.example(
      "mode-collapse-sim em --counts 50,30 --centres \"2,0;-2,0\" --start \"1,1;-1,1\" \\\n"
      "      --priors estimated --estimate-variance --steps 50 -o em.h5",
      "Fit a mixture of two components.");
  d.exit_status(1,
                "sinkhorn did not converge, or a property that must hold is violated: dnas >= "
                "unas, a likelihood that never falls; the results are written");
  return d;
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.verb == "curve") return run_curve(arguments, report);
  if (arguments.verb == "simulate") return run_simulation(arguments, report);
  return run_em(arguments, report);
}

}  // namespace

const ToolDefinition mode_collapse_sim = {declare, run, numeric_libraries};

}  // namespace attn::tools
