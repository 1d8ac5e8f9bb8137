#include "attn_compute/compute_steps.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "attn_compute/head_gradients.hpp"
#include "attn_compute/joined_writer.hpp"
#include "attn_compute/norms_over_heads.hpp"
#include "attn_compute/query_list.hpp"
#include "attn_compute/score_results.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/heads/input_warnings.hpp"
#include "common/outputs/gradient_writer.hpp"
#include "common/outputs/weights_writer.hpp"
#include "head/attend_head.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// Results by query and by key cover all queries and keys, padding included.
template <class T>
struct HeadResult {
  Buffer<T> out;
  SchemeSummary summary;
  Index empty_queries = 0;
  Index empty_keys = 0;
  std::vector<Buffer<T>> gradients, normed;  // of HeadGradients::of
  std::vector<double> row_potential, col_potential, unas_row_potential;
  std::vector<double> col_sum, row_entropy;
  std::vector<double> centre, variance, prior;
  std::vector<double> log_likelihood;  // by iteration
};

// The vectors of a result with their datasets.
template <class Result, class Body>
void for_vectors(Result& result, const Body& body) {
  body("row_potential", result.row_potential);
  body("col_potential", result.col_potential);
  body("unas_row_potential", result.unas_row_potential);
  body("col_sum", result.col_sum);
  body("row_entropy", result.row_entropy);
  body("centre", result.centre);
  body("variance", result.variance);
  body("prior", result.prior);
}

template <class Archive, class T>
void archive(Archive& with, HeadResult<T>& result) {
  archive(with, result.out);
  archive(with, result.summary);
  archive(with, result.empty_queries);
  archive(with, result.empty_keys);
  archive(with, result.gradients);
  archive(with, result.normed);
  for_vectors(result, [&](const char*, std::vector<double>& values) { archive(with, values); });
  archive(with, result.log_likelihood);
}

void warn_of_surprises(const ComputeTask& task, cli::Report& report) {
  const ComputeOptions& options = task.options;
  const AttentionInput& input = task.input;
  if (!options.settings_left.empty()) warn_of_settings_left(options.settings_left, report);
  const Scheme scheme = options.scheme.scheme;
  warn_of_input({scheme}, task.bundle, input, report);
  warn_of_leak({scheme}, input, report);
  if (input.queries == 1 && !is_by_query(scheme) && !description_of(scheme).is_mixture()) {
    report.warn("with one query " + options.name + " is uniform over the keys it may attend to");
  }
}

// Results by pair grow with the square of the length: says so before hours of writing.
void warn_of_large_results(const cli::Arguments& arguments, const ComputeTask& task,
                           cli::Report& report) {
  constexpr double usual = 2.0 * (std::int64_t{1} << 30);
  const double most = std::max(usual, static_cast<double>(arguments.memory));
  for (const ResultKind& kind : result_kinds()) {
    if (!kind.by_pair() || !task.options.emits(kind.name)) continue;
    const Shape own = own_shape(kind, task.options, task.input);
    const double bytes = static_cast<double>(task.input.own_problems()) *
                         static_cast<double>(own[0]) * static_cast<double>(own[1]) *
                         static_cast<double>(task.f64 ? sizeof(double) : sizeof(float));
    if (bytes <= most) continue;
    report.warn(fmt::format(
        "{} takes {:.3g} GB of the output: {} for each of {}{}", kind.name, bytes / 1e9, times(own),
        cli::counted(task.input.own_problems(), "head"),
        task.options.queries ? "" : "; --queries writes the rows of some queries only"));
  }
}

// The selected queries among a head's own ones.
RowSelection own_queries(const RowSelection& chosen, const TileRange& own) {
  PooledVector<RowRange> ranges = chosen.within({own.row0, own.row0 + own.rows});
  for (RowRange& range : ranges) range = {range.first - own.row0, range.last - own.row0};
  return RowSelection(std::move(ranges), own.rows);
}

// Memory for the results of a head that are written.
template <class T>
HeadTargets<T> targets_in(const ComputeOptions& options, const AttentionInput& input,
                          HeadResult<T>& result) {
  for_vectors(result, [&](const std::string& name, std::vector<double>& values) {
    if (!options.emits(name)) return;
    const Index length = name.starts_with("col_") ? input.keys : input.queries;
    values.resize(static_cast<std::size_t>(length * (name == "centre" ? input.depth : 1)));
  });
  HeadTargets<T> targets;
  if (options.needs_out()) {
    result.out = Buffer<T>(input.queries * input.v_head_dim);
    targets.out = {result.out.data(), input.queries, input.v_head_dim};
  }
  targets.row_potential = result.row_potential;
  targets.col_potential = result.col_potential;
  targets.unas_row_potential = result.unas_row_potential;
  targets.col_sum = result.col_sum;
  targets.row_entropy = result.row_entropy;
  if (!result.centre.empty()) targets.centre = {result.centre.data(), input.queries, input.depth};
  targets.variance = result.variance;
  targets.prior = result.prior;
  return targets;
}

// Writes the results of a head that are scores.
template <class T>
void emit_scores(const ComputeOptions& options, const AttentionInput& input, const Head<T>& head,
                 const Scores<T>& scores, const HeadOutputs& outputs, int threads) {
  const RowSelection* const chosen = options.queries ? &*options.queries : nullptr;
  const std::optional<RowSelection> own =
      chosen == nullptr ? std::nullopt : std::optional(own_queries(*chosen, head.part.range));
  const auto writer = [&](const char* name, T padding) {
    return PairWriter<T>(outputs.dataset(name), outputs.position(head.problem), input.all_pairs(),
                         head.part.range, padding, chosen);
  };
  naming_head(input, head, [&] {
    if (options.emits("scores")) {
      PairWriter<T> to = writer("scores", static_cast<T>(minus_infinity));
      write_scores(scores, to, own ? &*own : nullptr, threads);
    }
    if (options.emits("energies")) {
      PairWriter<T> to = writer("energies", T{0});
      write_energies(*scores.terms().energy, to, own ? &*own : nullptr, threads);
    }
  });
}

template <class T>
HeadResult<T> compute_head(const ComputeOptions& options, const AttentionInput& input,
                           const HeadGradients<T>& gradients, const Head<T>& head,
                           const HeadOutputs& outputs, std::int64_t useful_bytes,
                           Checkpoint* checkpoint, int threads) {
  HeadResult<T> result;
  HeadTargets<T> targets = targets_in(options, input, result);
  const RowSelection* const chosen = options.queries ? &*options.queries : nullptr;
  std::optional<WeightsWriter<T>> weights;
  if (options.emits("weights")) {
    weights.emplace(outputs.dataset("weights"), outputs.position(head.problem), input.all_pairs(),
                    head.part.range, chosen);
    if (chosen == nullptr) targets.weights = &*weights;
  }
  const double hybrid = options.hybrid.empty()
                            ? options.scheme.hybrid
                            : options.hybrid[static_cast<std::size_t>(head.problem)];
  HeadWork<T> work;
  begin_head(work, head, input, options.scheme, hybrid, options.repetition);
  work.scheme.kept_bytes = useful_bytes;
  std::optional<HeadState> state;
  if (checkpoint != nullptr && checkpoint->takes_states()) {
    work.scheme.keeper = &state.emplace(*checkpoint);
  }
  naming_head(input, head, [&] {
    attend_head(work, targets, options.emits_gradients(), threads);
    result.log_likelihood = log_likelihoods_of(work);
  });
  result.summary = work.attention.summary;
  result.empty_queries = work.attention.allowed.empty_queries();
  result.empty_keys = work.attention.allowed.empty_keys();
  if (options.emits_gradients()) {
    result.gradients = gradients.of(head, work, result.normed, threads);
  }
  close_gate(work);
  if (options.join) gradients.add_join(head, work.out, threads, result.gradients);
  emit_scores(options, input, head, work.scores(), outputs, threads);
  if (weights && chosen != nullptr) {
    // After the pass over all: it need not make every weight for the sake of a few.
    show_rows<T>(work.scores(), work.scheme, work.attention.potentials,
                 own_queries(*chosen, head.part.range), {&*weights}, threads);
  }
  // The output was needed for gradients only.
  if (!options.emits("out") && !options.join) result.out = Buffer<T>();
  if (chosen == nullptr) return result;
  if (result.out.size() > 0) keep_chosen(*chosen, result.out.data(), input.v_head_dim);
  if (!result.row_entropy.empty()) keep_chosen(*chosen, result.row_entropy.data(), 1);
  return result;
}

template <class T>
ComputeTotals compute(const cli::Arguments& arguments, const ComputeTask& task,
                      io::OutputBundle& bundle, HeadOutputs& outputs, Checkpoint* checkpoint,
                      cli::Progress& progress, cli::Report& report) {
  const ComputeOptions& options = task.options;
  const AttentionInput& input = task.input;
  const HeadNeeds needs =
      compute_needs(options, input, checkpoint != nullptr, sizeof(T), arguments.ranks);
  const Ranks::Use rows(Ranks::current(), needs.ranks.cut);
  const MemoryPlan plan = plan_memory(input, sizeof(T), needs, arguments.threads, arguments.memory);
  create_results(outputs, options, input, sizeof(T) == sizeof(double));
  // The three potentials determine the mixture only together with u.
  const bool keep_hybrid =
      arguments.only && options.emits("unas_row_potential") && !arguments.number("hybrid");
  if (keep_hybrid) outputs.create("hybrid", DType::f64, {}, {});
  const HeadGradients<T> gradients(options, input);
  NormsOverHeads<T> over_heads(gradients, options, input, plan.threads);
  GradientWriter<T> gradient_writer(bundle, options.gradients, input, report);
  std::optional<JoinedWriter<T>> joined;
  if (options.join) {
    joined.emplace(bundle, input, options.queries ? &*options.queries : nullptr, report);
  }
  ComputeTotals totals;
  totals.scheme.padding = input.padding();
  bool has_likelihood = true;
  const auto keep = [&](Index problem, HeadResult<T>& result) {
    outputs.write("out", problem, result.out.data());
    if (joined) joined->add(problem, result.out.data(), plan.threads);
    for_vectors(result, [&](const char* name, const std::vector<double>& values) {
      outputs.write(name, problem, values.data());
    });
    if (keep_hybrid) {
      outputs.write("hybrid", problem, &options.hybrid[static_cast<std::size_t>(problem)]);
    }
    if (!result.gradients.empty()) {
      over_heads.add(problem, result.normed, result.gradients);
      for (std::size_t n = 0; n < result.gradients.size(); ++n) {
        const Buffer<T>& part = result.gradients[n];
        gradient_writer.add(n, problem, {part.data(), static_cast<std::size_t>(part.size())});
      }
    }
    totals.scheme.add(Totals{result.summary, result.empty_queries, result.empty_keys});
    has_likelihood = has_likelihood && !result.log_likelihood.empty();
    totals.add_likelihood(result.log_likelihood);
  };
  const double seconds = for_each_head<T, HeadResult<T>>(
      input, plan, progress,
      [&](double least_bias) { warn_of_finite_masks(least_bias, {options.scheme.scheme}, report); },
      [&](const Head<T>& head, int threads) {
        return compute_head<T>(options, input, gradients, head, outputs, plan.useful_bytes,
                               checkpoint, threads);
      },
      keep, checkpoint);
  report.add_compute_seconds(seconds + over_heads.seconds());
  if (!has_likelihood) totals.log_likelihood.clear();
  return totals;
}

}  // namespace

ComputeTotals compute_section(const cli::Arguments& arguments, const ComputeTask& task,
                              io::OutputBundle output, Checkpoint* checkpoint,
                              cli::Progress& progress, cli::Report& report) {
  HeadOutputs outputs(output, task.input.leading, report, task.input.share.get());
  warn_of_surprises(task, report);
  warn_of_large_results(arguments, task, report);
  const auto run = task.f64 ? compute<double> : compute<float>;
  ComputeTotals totals = run(arguments, task, output, outputs, checkpoint, progress, report);
  if (task.options.queries) write_queries(*task.options.queries, output, report);
  record_results(arguments, task.options, task.input, task.f64, totals.scheme, output);
  return totals;
}

}  // namespace attn::tools
