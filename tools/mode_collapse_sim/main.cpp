// mode-collapse-sim: whether clusters of points that attend to each other merge.

#include "common/bundles.hpp"
#include "common/cluster_options.hpp"
#include "common/numeric_libraries.hpp"
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
  d.integer("steps", "T", "Number of steps. Default: 4; for em 20.", 1, Index{1} << 40);
  d.only_with(of_points);
  d.choices("emit",
            {"x", "label", "trajectory", "centre", "centre_distance", "spread", "modes",
             "log_likelihood", "variance", "prior"},
            "Results to write (default: all results of the verb).");
  d.only_with(of_points);
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
      "curve: r times as many points lie at a as at -a on a line. With s = exp(-2a^2) and q = "
      "(r+s)/(rs+1), the distance of their means after one step is 2r(1-s^2)a/((1+rs)(r+s)) under "
      "unas and 2qr(1-s^2)a/((q+rs)(r+sq)) under dnas. Writes r, a and, of shape (a, r), "
      "unas_distance, dnas_distance and gap (their difference, computed without cancellation). "
      "result: r (number of ratios); curves, each with a, least_difference_ulps (of dnas - unas, "
      "at least -4), asymmetry (relative difference between the formulas at r and the results at "
      "1/r, at most 32 units of 2^-52), holds, peak (r, log10_r and gap where the gap is largest, "
      "found as a root; r is null for a >= 15.4, beyond float64) and grid_peak (the same on the "
      "grid); holds (for all curves).");
  d.about(
      "simulate: each point x of a set is query, key and value: x <- sum_j pi_ij x_j, plus x with "
      "--residual. Points are drawn around --centres, exactly as tensor-gen clusters x=... draws "
      "them (float64 unless --precision is f32), or read from the datasets x (..., N, d) and label "
      "(N) or (..., N), integers. Writes x and label if drawn. Writes a group per scheme, with x's "
      "leading axes before trajectory (T+1, N, d), centre (T+1, C, d), centre_distance (T+1) for "
      "two clusters, else (T+1, C, C), spread (T+1, C), which is the root mean square distance to "
      "the centre, and modes (T+1). result: sets, points, dimension, clusters, labels, and "
      "schemes, each with status, iterations and steps. A step has the min, median and max over "
      "sets of centre_distance (between the two nearest centres), spread (of the widest cluster) "
      "and modes, and merged, the number of sets with two centres less than --merged apart.");
  d.about(
      "em: fits M centres q with components N(q, S I) and priors b to the data x. The shares xi_ij "
      "are proportional to b_i N(x_j | q_i, S I) and sum to 1 over i; q_i <- sum_j xi_ij x_j / "
      "sum_j xi_ij. Computes in float64 for any type of x. With fixed or estimated priors, the "
      "likelihood never falls by more than a relative 1e-10; with dnas it may. Writes the group "
      "em: log_likelihood (T+1), variance (T+1), centre (T+1, M, d), prior (T+1, M). result: sets, "
      "points, dimension, components, priors, falls (their number), largest_fall, "
      "largest_relative_fall, never_falls, sets_at_min_variance, empty_components (their share "
      "underflows), with dnas also dnas_error (difference between the first step and dnas in units "
      "of the rounding error bound, at most 1), and steps, each with the min, median and max over "
      "sets of log_likelihood and variance. result of --dry-run: result_bytes, and for simulate "
      "and em also working_bytes and flops.");
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
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run,
                                attn::tools::numeric_libraries());
}
