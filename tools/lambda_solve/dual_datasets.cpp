#include "lambda_solve/dual_steps.hpp"

#include "common/options/dataset_words.hpp"
#include "common/options/padding_words.hpp"
#include "common/tables/convergence_words.hpp"
#include "reports/dual_report.hpp"

namespace attn::tools {

void declare_dual_datasets(cli::Declaration& d) {
  d.formula("primal  min_p  alpha/2 |mu + z - sum_i p_i t_i|^2 + KL(p|u)")
      .formula("dual    max_lambda  <lambda, mu + z> - |lambda|^2/(2 alpha)")
      .formula("                    - log sum_i u_i exp<t_i, lambda>")
      .formula("p_i = u_i exp<t_i, lambda> / sum_j u_j exp<t_j, lambda>")
      .formula("alpha = 1/(weight noise) minimises |mu + z - h|^2/(2 noise) + weight KL(p|u)")
      .formula("mu = sum_i u_i t_i,   h = sum_i p_i t_i,   lambda = alpha (mu + z - h)")
      .formula("radius r: min_p KL(p|u), |mu + z - h|^2 <= r: where |lambda| = alpha sqrt(r)")
      .formula("  dual    max_lambda  <lambda, mu + z> - sqrt(r) |lambda|")
      .formula("                      - log sum_i u_i exp<t_i, lambda>");
  d.dataset("t", "(..., n, d)", "with --from templates: the templates")
      .dataset("z", "(..., Q, d)", "with --from templates: the evidence")
      .dataset("preference", "(..., n) or (..., Q, n)",
               "the preferences u >= 0, by default uniform; 0 excludes a template")
      .dataset("cost", "(n, n)", "with --divergence ot: transport costs; inf forbids a pair");
  declare_score_datasets(d);
  declare_value_datasets(d);
  d.result("lambda", "(..., Q, d)", "the maximiser of the dual, float64")
      .result("h", "(..., Q, d)", "sum_i p_i t_i, float64")
      .result("p", "(..., Q, n)", "the distribution over templates; only with --emit")
      .result("gap", "(..., Q)", "the duality gap, float64")
      .result("gradient_norm", "(..., Q)", "the norm of the gradient of the dual, float64")
      .result("iterations", "(..., Q)", "the number of Newton steps")
      .result("relative_deviation", "(..., Q)", "|lambda - alpha z|/|lambda|, float64")
      .result("h_first_order", "(..., Q, d)", "h at lambda = alpha z, float64")
      .result(
          "h_second_order", "(..., Q, d)",
          "h at lambda = alpha (1 + alpha C)^-1 z, where 1/alpha + C is minus the second "
          "derivative of the dual at lambda = 0: under kl, C is the covariance of the templates; "
          "float64")
      .result("out", "(..., Q, dv)", "sum_i p_i v_i")
      .result("out_deviation", "(..., Q)",
              "the distance of softmax attention from out, relative to out, float64")
      .result("alpha", "(..., Q)",
              "with --radius: alpha of each query, 0 where p = u is near enough, inf at the least "
              "possible radius; float64")
      .report_member(
          "problems, converged, empty",
          "the numbers of queries, of converged queries, and of queries without a template")
      .report_member("rate, predicted_iterations", convergence_member)
      .report_member("max_gap, max_relative_gap, max_gradient_norm, max_certificate_error",
                     "the largest values over all queries")
      .report_member("iterations", "max and mean")
      .report_member("relative_deviation, out_deviation",
                     "mean, median, min, max and quantiles over all queries")
      .report_member("radius, alpha",
                     "with --radius: the radius; mean, median, min, max and quantiles of alpha. At "
                     "the least radius, the finite alpha of the computation counts")
      .report_member("padded_queries, padded_keys", padding_member)
      .report_member("queries, templates, axes", "the sizes")
      .report_member("template_scale", "the factor of the templates")
      .report_member("mean_over_heads",
                     "with --average heads: the number of queries, and relative_deviation, as "
                     "above, for the means over the heads")
      .report_member("heads", "an array of the same members for each head with its index");
  declare_groups_member(d);
  for (const auto& [columns, meaning] : dual_table_meanings()) d.column(columns, meaning);
  d.reference(fenchel_reference);
}

}  // namespace attn::tools
