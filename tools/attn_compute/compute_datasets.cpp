#include "attn_compute/compute_steps.hpp"

#include <fmt/format.h>

#include "attn_compute/repeated_scheme.hpp"
#include "common/options/dataset_words.hpp"
#include "common/options/padding_words.hpp"
#include "common/results/result_kinds.hpp"
#include "common/tables/convergence_words.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

void declare_formulas(cli::Declaration& d) {
  d.formula("weight_ij = exp((s_ij - g_j) - f_i),   out_i = sum_j weight_ij v_j")
      .formula("f_i = log sum_j exp(s_ij - g_j)      so that each row sums to 1");
  for (const SchemeDescription* scheme : schemes()) {
    d.formula(fmt::format("{:<9} {}", scheme->name(), scheme->formula()));
  }
  for (const RepeatedScheme& scheme : repeated_schemes) {
    d.formula(fmt::format("{:<9} {}", scheme.name, scheme.formula));
  }
}

void declare_results(cli::Declaration& d) {
  d.result("out", "(..., Lq, dv)", "the output of the layer, in the type of the computation")
      .result("weights", "(..., Lq, Lk)", "the attention weights; only with --emit")
      .result("scores", "(..., Lq, Lk)",
              "scores as the softmax sees them, with soft cap and biases; -inf for masked pairs "
              "and in padding; only with --emit")
      .result("energies", "(..., Lq, Lk)",
              "scale energy(q, k) for every pair, masked or not, before soft cap and biases; 0 in "
              "padding; only with --emit")
      .result("joined", "(..., Lq, D)",
              "with --join: concat_h(out_h) wo + bo, or (..., Lq, H dv) without wo; 0 in padding")
      .result("row_potential", "(..., Lq)",
              "f, float64; -inf, or the sink's logit, for a query that may attend to no key. With "
              "hnas, f of dnas")
      .result("unas_row_potential", "(..., Lq)", "with hnas: the row potential of unas, float64")
      .result("col_potential", "(..., Lk)",
              "g, float64; -inf for a key to which no query may attend")
      .result("col_sum", "(..., Lk)", "sum_i weight_ij, float64")
      .result("row_entropy", "(..., Lq)", "-sum_j weight_ij log weight_ij, float64")
      .result("centre", "(..., Lq, d)",
              "with em and mean-shift: the queries of the last repetition, from which out is made; "
              "float64, in the layout of out; only with --emit")
      .result("variance, prior", "(..., Lq)",
              "with em: the variance S_i and the prior b_i of each query's Gaussian in the last "
              "repetition, float64; only with --emit")
      .result("queries", "(n)", "with --queries: the indices of the queries computed")
      .result(fmt::format("{}", fmt::join(gradient_names(), ", ")), "",
              "the gradient of the loss with respect to the dataset after grad_, in its shape")
      .report_member("scheme, problems, queries, keys",
                     "the scheme and the sizes; a problem is "
                     "one head of one sequence")
      .report_member("status, iterations, column_error",
                     "for the problem that converged worst; with sinkhorn, the error is the "
                     "relative L1 error of the column sums")
      .report_member("rate, predicted_iterations", convergence_member)
      .report_member("empty_queries", "the number of queries that may attend to no key")
      .report_member("masked_keys", "the number of keys to which no query may attend")
      .report_member("padded_queries, padded_keys", padding_member)
      .report_member(
          "log_likelihood",
          "of all heads, under em, and under unas and dnas with --energy gaussian. Under unas, the "
          "keys are centres of Gaussians of variance 1/scale and the queries are data; under dnas, "
          "the other way round. Priors ~ exp(bias), a bias per centre")
      .report_member("log_likelihood_by_iteration",
                     "with em and mean-shift: before each move of the queries; never falls");
}

}  // namespace

void declare_compute_datasets(cli::Declaration& d) {
  declare_formulas(d);
  declare_score_datasets(d);
  declare_value_datasets(d);
  declare_energy_datasets(d);
  d.dataset("preference", "broadcastable to (..., Lq, Lk)",
            "with fenchel and transport: a preference >= 0 for each key, by default uniform. With "
            "transport, a key of preference 0 sends none, but receives that of others")
      .dataset("cost", "(..., Lk, Lk)",
               "with transport: costs >= 0 (row: to, column: from; inf forbids)")
      .dataset("sink", "(), (H) or (B, H)",
               "a logit without a value; its exponential joins the sum of each row (0: softmax off "
               "by one), under dnas after the column step. Not with sinkhorn and transport")
      .dataset("hybrid", "(), (H) or (B, H)",
               "with hnas: the share u of dnas, unless --hybrid is given; its axes are the last "
               "leading axes of q")
      .dataset("grad_out", "(..., Lq, dv)",
               "for gradients: the gradient of the loss with respect to out")
      .dataset("wo", "(H dv, D)",
               "with --join: the projection of the joined heads, the first head in the first rows; "
               "for a PyTorch layer, out_proj.weight transposed")
      .dataset("bo", "(D)", "with --join and wo: the bias of this projection")
      .dataset("grad_joined", "(..., Lq, D)",
               "for gradients with --join: the gradient of the loss with respect to joined");
  declare_results(d);
  declare_groups_member(d);
  d.reference(doubly_normalized_reference)
      .reference(explain_away_reference)
      .reference(fenchel_reference)
      .reference(mechanisms_reference);
}

}  // namespace attn::tools
