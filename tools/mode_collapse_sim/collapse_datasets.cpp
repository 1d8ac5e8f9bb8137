#include "mode_collapse_sim/collapse_datasets.hpp"

#include "common/options/dataset_words.hpp"

namespace attn::tools {
namespace {

void declare_formulas(cli::Declaration& d) {
  d.formula("curve     s = exp(-2 a^2),   q = (r + s)/(r s + 1)")
      .formula("  unas    2 r (1 - s^2) a / ((1 + r s)(r + s))")
      .formula("  dnas    2 q r (1 - s^2) a / ((q + r s)(r + s q))")
      .formula("simulate  x_i = sum_j weight_ij x_j  (+ x_i with --residual)")
      .formula("em        xi_ij ~ b_i N(x_j | q_i, S_i I),   sum_i xi_ij = 1")
      .formula("          q_i = sum_j xi_ij x_j / sum_j xi_ij")
      .formula("          S = sum_ij xi_ij |x_j - q_i|^2 / (d N), or for each")
      .formula("          S_i = sum_j xi_ij |x_j - q_i|^2 / (d sum_j xi_ij)");
}

void declare_results(cli::Declaration& d) {
  d.result("r, a", "(r), (a)",
           "curve: the ratios of the numbers of points, and half the initial distances")
      .result("unas_distance, dnas_distance, gap", "(a, r)",
              "curve: the distance of the means after one step, and the difference of the two, "
              "float64")
      .result("x, label", "(..., N, d), (N)", "simulate, em: the points drawn, with their clusters")
      .result("SCHEME/trajectory", "(..., T+1, N, d)", "simulate: the points after each step")
      .result("SCHEME/centre", "(..., T+1, C, d)", "simulate: the centre of each cluster")
      .result("SCHEME/centre_distance", "(..., T+1) or (..., T+1, C, C)",
              "simulate: the distances of the centres; one number for two clusters")
      .result("SCHEME/spread", "(..., T+1, C)",
              "simulate: the root mean square distance of a cluster's points from its centre")
      .result("SCHEME/modes", "(..., T+1)", "simulate: the effective number of modes")
      .result("SCHEME/log_likelihood", "(..., T+1)",
              "simulate --energy gaussian, unas and dnas: the log-likelihood of the points under a "
              "mixture of Gaussians with equal priors and variance 1/scale, one around each point")
      .result("em/log_likelihood, em/variance", "(..., T+1)",
              "em: the log-likelihood and the variance before each step and after the last; if "
              "each component has its own variance, variance is (..., T+1, M)")
      .result("em/centre, em/prior", "(..., T+1, M, d), (..., T+1, M)",
              "em: the centres and priors of the components");
}

void declare_report(cli::Declaration& d) {
  d.report_member("r, curves, holds",
                  "curve: the number of ratios; an array with one object for each a; whether all "
                  "hold")
      .report_member("curves: a, holds", "half the initial distance; whether the bounds below hold")
      .report_member("curves: least_difference_ulps",
                     "the least difference dnas - unas in units of the last place, at least -4")
      .report_member("curves: asymmetry",
                     "the relative difference between the formulas at r and the results at 1/r, at "
                     "most 32 units of 2^-52")
      .report_member("curves: peak, grid_peak",
                     "r, log10_r and gap at the largest gap: as a root (r is null for a >= 15.4, "
                     "beyond float64), and on the grid")
      .report_member("sets, points, dimension", "simulate, em: the sizes")
      .report_member(
          "clusters, labels, schemes",
          "simulate: the number of clusters and their labels, and for each "
          "scheme status, iterations and steps, with rate and predicted_iterations if it did "
          "not converge")
      .report_member("schemes: steps",
                     "min, median and max over sets of centre_distance (between the two nearest "
                     "centres), spread (of the widest cluster), modes and, where there is one, "
                     "log_likelihood; merged, the number of sets with two centres less than "
                     "--merged apart")
      .report_member("components, priors, steps",
                     "em: min, median and max over sets of log_likelihood and variance by step; "
                     "least_variance and largest_variance if each component has its own")
      .report_member("falls, largest_fall, largest_relative_fall, never_falls",
                     "em: how often and how far the likelihood fell")
      .report_member("sets_at_min_variance, empty_components, dnas_error",
                     "em: the number of sets with a variance at --min-variance, and of components "
                     "whose share underflowed; with --priors dnas, the difference between the "
                     "first step and dnas relative to its rounding bound, at most 1")
      .report_member("result_bytes, working_bytes, flops",
                     "with --dry-run; curve has only result_bytes");
}

}  // namespace

void declare_collapse_datasets(cli::Declaration& d) {
  declare_formulas(d);
  d.dataset("x", "(..., N, d)", "simulate, em: the points, unless they are drawn")
      .dataset("label", "(N) or (..., N)", "simulate, em: the cluster of each point, an integer")
      .dataset("start", "(M, d)", "em: the first centres, unless --start is given");
  declare_results(d);
  declare_report(d);
  d.reference(doubly_normalized_reference).reference(explain_away_reference);
}

}  // namespace attn::tools
