// The costs of a run of attn-compute: memory for the plan, and all costs for --dry-run.

#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attn_compute/attention_results.hpp"
#include "attn_compute/head_gradients.hpp"
#include "attn_compute/joined_writer.hpp"
#include "attn_compute/norms_over_heads.hpp"
#include "attn_compute/score_results.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"
#include "common/outputs/pair_writer.hpp"
#include "common/runs/restart.hpp"
#include "head/repeated_scores.hpp"
#include "pass/output.hpp"
#include "scheme/scheme_description.hpp"
#include "stats/observers.hpp"

namespace attn::tools {
namespace {

// Bytes of one head's results in the file.
double result_bytes(const ComputeOptions& options, const AttentionInput& input,
                    std::size_t element_size) {
  double bytes = 0;
  for (const ResultKind& kind : result_kinds()) {
    if (!options.emits(kind.name)) continue;
    const Shape own = own_shape(kind, options, input);
    const double elements =
        kind.by_pair() ? pairs_elements(own[0], own[1]) : static_cast<double>(element_count(own));
    bytes += elements * static_cast<double>(kind.computed_type ? element_size : sizeof(double));
  }
  return bytes;
}

Index shown_queries(const ComputeOptions& options, const AttentionInput& input) {
  return options.queries ? options.queries->count() : input.queries;
}

bool emits_scores(const ComputeOptions& options) {
  return options.emits("scores") || options.emits("energies");
}

}  // namespace

HeadNeeds compute_needs(const ComputeOptions& options, const AttentionInput& input, bool stops,
                        std::size_t element_size, Index ranks) {
  HeadNeeds needs;
  // Passes by columns would read the rows of all ranks.
  needs.ranks =
      options.scheme.scheme == Scheme::sinkhorn ? rank_rows(input, ranks) : RankRows{ranks};
  Index numbers = 0;  // of the type computed in
  if (options.needs_out()) {
    numbers += input.queries * input.v_head_dim;
  }
  for (const GradientKind& kind : options.gradients) {
    if (!kind.of_all_heads()) numbers += kind.size();
  }
  for (const bool of_queries : {true, false}) {
    if (!through_all_heads(options.gradients, input, of_queries)) continue;
    const Vectors& normed = of_queries ? *input.q : *input.k;
    numbers += normed.rows * normed.cols;
  }
  Index vectors = 3 * (input.queries + input.keys);
  if (options.repetition) vectors += (input.depth + 2) * input.queries;
  needs.result_bytes =
      numbers * static_cast<Index>(element_size) + vectors * static_cast<Index>(sizeof(double));
  const Partition partition =
      partition_of(Order::row_panels, input.queries, input.keys, element_size);
  const std::int64_t sums = options.emits("col_sum") ? ColumnSums<float>::bytes(partition) : 0;
  needs.useful_bytes =
      useful_attend_bytes(options.scheme, input.queries, input.keys, element_size, needs.ranks);
  needs.kept_bytes = gradient_sum_bytes(options.gradients, input.problems) +
                     norms_over_heads_kept_bytes(options, input, element_size);
  if (options.join) {
    needs.kept_bytes += joined_bytes(input, shown_queries(options, input), element_size);
  }
  needs.parts = attend_parts(options.scheme.scheme, options.emits_gradients(), input.queries,
                             input.keys, element_size);
  const std::int64_t state = attend_state_bytes(options.scheme.scheme, input.queries, input.keys);
  if (stops && state > 0) needs.state_bytes = HeadState::bytes(state);
  if (stops && options.repetition && !options.emits_gradients()) {
    needs.state_bytes = HeadState::bytes(repeated_state_bytes(input.sizes()));
  }
  needs.work_bytes = [&options, &input, sums, element_size](int threads, std::int64_t) {
    const std::int64_t repeated =
        options.repetition
            ? repeated_scores_bytes(input.recipe(options.scheme.scheme), options.scheme.scheme,
                                    input.sizes(),
                                    options.emits_gradients() ? options.repetition->iterations : 1,
                                    element_size, threads)
            : 0;
    const std::int64_t output = options.needs_out()
                                    ? output_bytes(options.scheme.scheme, input.queries, input.keys,
                                                   input.v_head_dim, element_size, threads)
                                    : 0;
    const std::int64_t scores =
        emits_scores(options) ? score_results_bytes(element_size, threads) : 0;
    const std::int64_t forward = std::max(scores, attend_bytes(options.scheme.scheme, input.queries,
                                                               input.keys, element_size, threads)) +
                                 sums + output;
    const std::int64_t backward = head_gradient_bytes(options, input, element_size, threads);
    return std::max(repeated + std::max(forward, backward),
                    norms_over_heads_bytes(options, input, element_size, threads));
  };
  return needs;
}

void report_cost(const cli::Arguments& arguments, const ComputeOptions& options,
                 const AttentionInput& input, bool f64, cli::Report& report) {
  const SchemeDescription& description = description_of(options.scheme.scheme);
  const std::size_t element = f64 ? sizeof(double) : sizeof(float);
  const HeadNeeds needs =
      compute_needs(options, input, checkpoints(arguments), element, arguments.ranks);
  const std::int64_t working =
      plan_memory(input, element, needs, arguments.threads, arguments.memory).bytes;
  const auto heads = static_cast<double>(input.own_problems());
  const double out =
      options.needs_out() ? 2 * input.pairs() * static_cast<double>(input.v_head_dim) : 0;
  double passes = description.score_passes(options.scheme) + (options.emits("scores") ? 1 : 0) +
                  (options.emits("energies") ? 1 : 0);
  // The means of keys, and their distances from these.
  double moving = 0;
  if (options.repetition) {
    const auto before = static_cast<double>(options.repetition->iterations - 1);
    passes += before * description.score_passes(options.scheme);
    moving = before * input.pairs() * static_cast<double>(input.depth) *
             (options.repetition->estimates_variance ? 7 : 2);
  }
  const Index joined = options.join && input.wo ? shown_queries(options, input) : 0;
  const double joining = 2 * heads * static_cast<double>(joined) *
                         static_cast<double>(input.v_head_dim * input.joined_width);
  const double among_keys = input.pairs() * description.flops_among_keys(input.keys, false);
  const double flops = input.score_flops(options.scheme.scheme, passes) + out + among_keys +
                       moving + joining + gradient_flops(options, input);
  double bytes = heads * result_bytes(options, input, element);
  if (options.join) {
    bytes += static_cast<double>(element_count(input.joined_shape(shown_queries(options, input)))) *
             static_cast<double>(element);
  }
  bytes += gradient_elements(options.gradients) * static_cast<double>(element);
  const std::string& scheme = options.name;
  const Shape shape = join(input.leading, {input.queries, input.keys});

  auto& result = report.result();
  result["scheme"] = scheme;
  result["shape"] = shape;
  report_run_cost(
      {fmt::format("{} of {} in {}", scheme, times(shape), precision_words(options.scores, f64)),
       working, bytes, arguments.compress > 0,
       fmt::format("{:.3g} flops{}", flops, description.is_iterated() ? " at most" : "")},
      report);
  result["flops"] = flops;
}

}  // namespace attn::tools
