// mode-collapse-sim: whether clusters of points that attend to each other run into one.

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
            "So many sets of points, of --seed and the seeds after it: results have a leading axis "
            "of seeds.",
            1, Index{1} << 40);
  d.only_with(of_points);
  d.integer("steps", "T", "Steps (4; of em 20).", 1, Index{1} << 40);
  d.only_with(of_points);
  d.choices("emit",
            {"x", "label", "trajectory", "centre", "centre_distance", "spread", "modes",
             "log_likelihood", "variance", "prior"},
            "What to write (default: all that the verb makes).");
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
      {{"curve", "How far apart one step leaves two groups of coinciding points, in closed form.",
        Role::generator},
       {"simulate", "Steps of self-attention on clusters of points.", Role::optional_input},
       {"em", "Steps of EM for a Gaussian mixture, of which dnas is one.", Role::optional_input}});
  d.about(
      "curve: r times as many points at a as at -a on a line; with s = exp(-2a^2) and q = "
      "(r+s)/(rs+1) a step leaves their means 2r(1-s^2)a/((1+rs)(r+s)) apart under unas, "
      "2qr(1-s^2)a/((q+rs)(r+sq)) under dnas. Writes r, a, unas_distance, dnas_distance and gap "
      "(their difference, without a subtraction), the latter three (a, r). result: r (how many), "
      "curves, for each its a, least_difference_ulps (of dnas - unas, at least -4), asymmetry "
      "(relative, of r by "
      "these formulas against 1/r by those of the results, at most 32 units of 2^-52), holds, peak "
      "(r, log10_r and gap where the gap is largest of all, found as a root; r is null from a = "
      "15.4 on, beyond float64) and grid_peak (on the grid); holds of all.");
  d.about(
      "simulate: each point x of a set is query, key and value: x <- sum_j pi_ij x_j, plus x with "
      "--residual. Points are drawn about --centres, the same as tensor-gen clusters x=... draws "
      "(float64 unless --precision is f32), or are the dataset x (..., N, d) with the integers "
      "label (N) or (..., N). Writes x and label where drawn and, in a group for each scheme, "
      "after "
      "x's leading axes trajectory (T+1, N, d), centre (T+1, C, d), centre_distance, (T+1) of two "
      "clusters, else (T+1, C, C), spread (T+1, C), the root mean square distance to the centre, "
      "and modes (T+1). result: sets, points, dimension, clusters, labels, and schemes: of each "
      "status, "
      "iterations and steps: step, and min, median and max over sets of centre_distance (of the "
      "two nearest centres), spread (of the widest cluster) and modes; merged, how many sets have "
      "centres less than --merged apart.");
  d.about(
      "em: M centres q of N(q, S I) with priors b, and x the data: shares xi_ij ~ b_i N(x_j | q_i, "
      "S I) that sum to 1 over i, q_i <- sum_j xi_ij x_j / sum_j xi_ij, in float64 whatever x is. "
      "The likelihood never "
      "falls, unless by 1e-10 of it, under priors fixed or estimated; under dnas it may. Writes "
      "group em: log_likelihood (T+1), variance (T+1), centre (T+1, M, d), prior (T+1, M). "
      "result: sets, points, dimension, components, priors, falls (how often), largest_fall, "
      "largest_relative_fall, never_falls, sets_at_min_variance, empty_components (whose share "
      "underflows), of dnas dnas_error (of the first step against dnas, at most 1 in units of "
      "what rounding may do), and steps: step, and min, median and max over sets of "
      "log_likelihood and variance. result of --dry-run: result_bytes, and of simulate and em "
      "working_bytes and flops.");
  declare_curve(d);
  declare_points(d);
  declare_simulation(d);
  declare_em(d);
  declare_collapse_datasets(d);
  d.example("mode-collapse-sim curve --r 1:1e7:200 --a 0.5,1,2 -o curve.h5",
            "closed forms of DN 5.2 and EA E, and where their gap peaks");
  d.example(
      "mode-collapse-sim simulate --counts 500,50 --centres \"1.8,0.7;-1,-1\" \\\n"
      "      --variance 0.1 --seeds 100 --emit centre_distance -o runs.h5",
      "the unbalanced experiment over 100 seeds");
  d.example(
      "tensor-gen clusters x=90x3 --counts 50,30,10 --centres \"2,0,0;0,2,0;0,0,2\" |\n"
      "      mode-collapse-sim simulate --energy gaussian - -o runs.h5",
      "the same for points that come from elsewhere");
  d.example(
      "mode-collapse-sim em --counts 50,30 --centres \"2,0;-2,0\" --start \"1,1;-1,1\" \\\n"
      "      --priors estimated --estimate-variance --steps 50 -o em.h5",
      "a mixture of two components is fitted");
  d.exit_status(
      1,
      "sinkhorn did not converge, or what is to hold does not: dnas >= unas, a likelihood "
      "that never falls; the results are written");
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
