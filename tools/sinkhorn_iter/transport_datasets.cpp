#include "sinkhorn_iter/transport_steps.hpp"

#include "common/options/dataset_words.hpp"
#include "common/options/padding_words.hpp"
#include "common/tables/convergence_words.hpp"
#include "sinkhorn_iter/histograms.hpp"

namespace attn::tools {

void declare_transport_datasets(cli::Declaration& d) {
  d.formula("plan_ij = exp((s_ij - g_j) - f_i),   s = -cost/epsilon")
      .formula("g_j = log sum_i exp(s_ij - f_i) - log b_j")
      .formula("f_i = log sum_j exp(s_ij - g_j) - log a_i,   repeated")
      .formula("--unbalanced R: f and g are R/(R + epsilon) times these; each iteration ends")
      .formula("with the shift of (f, -g) that maximises the dual,")
      .formula("dual = -R sum a (exp(epsilon f/R) - 1) - R sum b (exp(epsilon g/R) - 1)")
      .formula("       - epsilon sum P")
      .formula("W(a, b; C) = min <P, C> + epsilon sum P log P = dual + epsilon sum P is the")
      .formula("divergence ot of lambda-solve; it tends to min <P, C> as epsilon falls");
  d.dataset("cost", "(..., Lq, Lk)", "with --epsilon or exact: costs; inf forbids a pair")
      .dataset("a", "(..., Lq)",
               "row sums, numbers or counts; by default 1/Lq for a cost, 1 for scores; barycentre: "
               "the histograms, (..., K, Lk)")
      .dataset("b", "(..., Lk)", "column sums; by default 1/Lk for a cost, Lq/Lk for scores");
  d.dataset(histogram_weights, "(..., K)",
            "barycentre: weights >= 0 of the histograms, divided by their sum; by default all the "
            "same");
  d.dataset("col_potential", "(..., Lk)",
            "for --start stored: g to begin with, finite where the column has mass; without "
            "--unbalanced, a mean above 65536 in magnitude is taken off");
  d.dataset("grad_plan", "broadcastable to (..., Lq, Lk)",
            "for --emit grad_NAME: derivatives of a number L with respect to the plan; finite")
      .dataset("grad_row_potential, grad_col_potential", "(..., Lq), (..., Lk)",
               "with respect to f and g; at least one of all these datasets is needed. L is taken "
               "at the potentials with sum f = sum g over lines with mass, unless --unbalanced or "
               "--gradient unrolled is given. barycentre: (..., K, Lq) and (..., K, Lk); L is "
               "taken at potentials with "
               "the same sum f_k - sum g_k for all k")
      .dataset("grad_row_self_potential, grad_col_self_potential", "(..., Lq), (..., Lk)",
               "divergence: with respect to these results; there is no grad_plan")
      .dataset("grad_barycentre", "(..., Lq)", "barycentre: with respect to p");
  declare_score_datasets(d);
  declare_energy_datasets(d);
  d.result("plan", "(..., Lq, Lk)",
           "the plan; only with --emit. barycentre: the sum of w_k P_k over the histograms")
      .result("barycentre", "(..., Lq)", "barycentre: p, with the sum of a histogram, float64")
      .result("row_potential", "(..., Lq)",
              "f, float64; -inf for a row with the sum 0; barycentre: (..., K, Lq)")
      .result("col_potential", "(..., Lk)",
              "g, float64; -inf for a column with the sum 0; barycentre: (..., K, Lk)")
      .result("row_self_potential, col_self_potential", "(..., Lq), (..., Lk)",
              "divergence, only with --emit: the potentials of a with itself and of b with itself, "
              "float64")
      .result("error", "(..., T)",
              "the L1 error of the marginals after each iteration, float64; NaN after the last "
              "one; bulk: (...), the error of the plan")
      .result(
          "dual_grad_a, dual_grad_b", "(..., Lq), (..., Lk)",
          "only with --emit: derivatives of the dual with respect to a and b, float64: -epsilon f "
          "and -epsilon g, for changes that keep the sums of a and b equal; with --unbalanced R (1 "
          "- exp(epsilon f/R)). -inf at a marginal of 0; inf, or R, for a line that no mass can "
          "reach. divergence: of S, finite at a marginal of 0, unless all are 0; inf, or 0, for "
          "such a line. barycentre: -epsilon w_k g of each histogram, (..., K, Lk)")
      .result(
          "dual_grad_histogram_weights", "(..., K)",
          "barycentre, only with --emit: derivatives of the dual with respect to the weights as "
          "given: OT(p, a_k) less the mean over the histograms, divided by the sum of weights")
      .result("dual_grad_q, dual_grad_k", "(..., Lq, d), (..., Lk, d)",
              "only with --emit: derivatives of the dual with respect to q and k, separate for "
              "each problem")
      .result(
          "grad_a, grad_b", "(..., Lq), (..., Lk)",
          "only with --emit: derivatives of L through the solution with respect to a and b, "
          "float64, for changes that keep their sums equal, unless --unbalanced is given. At a "
          "mass of 0, derivatives for an increase: infinite if L depends on the potential there, "
          "or, except of a divergence, with --unbalanced on the plan; NaN if problems that share "
          "the mass have infinite derivatives of both signs, or if a is 0 everywhere but b is not. "
          "barycentre: grad_a of each histogram, (..., K, Lk). All grad_NAME have the shape of the "
          "dataset NAME: they are summed over the problems that share it. Default masses and "
          "weights have derivatives for each problem")
      .result("grad_histogram_weights", "(..., K)",
              "barycentre, only with --emit: the same with respect to the weights as given, also "
              "at a weight of 0")
      .result("grad_q, grad_k", "(..., Lq, d), (..., Lk, d)",
              "only with --emit: the same with respect to q and k")
      .result("grad_cost, grad_scores", "(..., Lq, Lk)",
              "only with --emit: the same with respect to the cost or the scores; divergence: for "
              "changes that keep the cost symmetric; bulk: grad_scores through the iterations")
      .result("chain", "(..., L, 3)",
              "bulk --chain: the largest singular value, row sum and column sum of the product of "
              "the plans so far, float64")
      .report_member(
          "iterations, status, tolerance, row_error, col_error",
          "for the problem that converged worst; the errors are sums over the marginals, in units "
          "of the masses: not relative to their total")
      .report_member("rate, predicted_iterations", convergence_member)
      .report_member("value, primal, dual, gap",
                     "<P, C>, the primal and the dual objective, and a bound on how far the dual "
                     "is from the optimum; null if unknown. The entropic transport W of FD has no "
                     "term -epsilon sum P: W is dual + epsilon sum P, where sum P is sum a")
      .report_member("divergence, sharp_divergence, lower, upper",
                     "divergence: its value, its value with <P, C> alone, and bounds on the "
                     "former; value, primal, dual and gap are of the transport between both sides")
      .report_member("relative_gap, gap_floor, solver, epsilon",
                     "exact: gap / value; the gap that counts as none, 1e-14 (float32: 1e-6) times "
                     "the largest "
                     "cost times the mass; simplex, whose iterations are pivots, or annealing; and "
                     "the epsilon "
                     "at which annealing ended")
      .report_member("histograms", "barycentre: K")
      .report_member("mass", "with --unbalanced: the sum of the plan")
      .report_member("gradient_iterations, gradient_residual",
                     "with --emit grad_NAME: steps of conjugate gradients, and the relative "
                     "residual of the linear equations, at most 1e-10, in float32 1e-6, else the "
                     "exit status is 1")
      .report_member("gradient_plan_error, gradient_error",
                     "the error of a plan that is no solution, for which the equations do not "
                     "hold: 0, else the exit status is 1; and an estimate of the relative error "
                     "of the gradients that it causes, null if unknown")
      .report_member("rescaled", "the difference of the sums of a and b, if b was scaled")
      .report_member(
          "row_total, col_total, unserved_queries, unserved_keys, vanishing",
          "if there is no plan: the sums of the marginals, and the rows and columns that "
          "prove it")
      .report_member("padded_queries, padded_keys", padding_member)
      .report_member("queries, keys, problems",
                     "the sizes, and an array of the same members for each problem with its index")
      .report_member("scaled, logarithmic, largest_error, mean_error",
                     "bulk: how many problems were solved in either way, and their errors")
      .report_member("against",
                     "bulk --against: for plan and grad_scores, how many matrices were compared, "
                     "how many differ by more than rounding explains, and the worst entry: index, "
                     "found and expected")
      .report_member("largest_gain",
                     "bulk --chain: the largest gains of whole chains, spectral, row_sum and "
                     "column_sum, and their limit");
  declare_groups_member(d);
  d.reference(doubly_normalized_reference).reference(explain_away_reference);
}

}  // namespace attn::tools
