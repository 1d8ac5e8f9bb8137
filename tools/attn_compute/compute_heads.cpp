#include "attn_compute/compute_heads.hpp"

#include <algorithm>
#include <cmath>

#include "attn_compute/gradient_writer.hpp"
#include "attn_compute/head_gradients.hpp"
#include "attn_compute/joined_writer.hpp"
#include "attn_compute/query_list.hpp"
#include "attn_compute/score_results.hpp"
#include "common/leak_warning.hpp"
#include "common/own_rows.hpp"
#include "common/weights_writer.hpp"
#include "pass/output.hpp"
#include "plan/output_gate.hpp"
#include "plan/repeated_scores.hpp"
#include "scheme/scheme_description.hpp"
#include "stats/observers.hpp"
#include "tensor/infinity.hpp"

namespace attn::tools {
namespace {

template <class T>
struct HeadResult {
  Buffer<T> out;
  Attention attention;
  std::vector<Buffer<T>> gradients;
  std::vector<double> col_sum;
  std::vector<double> row_entropy;
  std::vector<double> log_likelihood;  // by iteration
  std::vector<double> centre, variance, prior;
};

template <class Archive, class T>
void archive(Archive& with, HeadResult<T>& result) {
  archive(with, result.out);
  archive(with, result.gradients);
  archive(with, result.attention.allowed.keys_of_query);
  archive(with, result.attention.allowed.queries_of_key);
  archive(with, result.attention.potentials.row);
  archive(with, result.attention.potentials.col);
  archive(with, result.attention.potentials.unas_row);
  archive(with, result.attention.summary);
  archive(with, result.col_sum);
  archive(with, result.row_entropy);
  archive(with, result.log_likelihood);
  archive(with, result.centre);
  archive(with, result.variance);
  archive(with, result.prior);
}

void warn_of_surprises(const ComputeOptions& options, const AttentionInput& input,
                       cli::Report& report) {
  if (!options.settings_left.empty()) warn_of_settings_left(options.settings_left, report);
  const Scheme scheme = options.scheme.scheme;
  warn_of_leak({scheme}, input, report);
  if (input.queries == 1 && !is_softmax(scheme) && !description_of(scheme).is_mixture()) {
    report.warn("with one query " + options.name + " is uniform over the keys it may attend to");
  }
}

// The selected queries among a head's own ones.
RowSelection own_queries(const RowSelection& chosen, const TileRange& own) {
  PooledVector<RowRange> ranges = chosen.within({own.row0, own.row0 + own.rows});
  for (RowRange& range : ranges) range = {range.first - own.row0, range.last - own.row0};
  return RowSelection(std::move(ranges), own.rows);
}

// Results of the own queries and keys become those of all, but for the output.
template <class T>
void spread(const ComputeOptions& options, const AttentionInput& input, Index problem,
            HeadResult<T>& result) {
  const TileRange& own = input.part(problem).range;
  const auto by_query = [&](auto& values, Index width, auto padding) {
    spread_rows(values, own.row0, input.queries, width, padding);
  };
  const auto by_key = [&](auto& values, double padding) {
    spread_rows(values, own.col0, input.keys, 1, padding);
  };
  Potentials& potentials = result.attention.potentials;
  by_query(potentials.row, 1, minus_infinity);
  by_key(potentials.col, minus_infinity);
  if (options.emits("unas_row_potential")) by_query(potentials.unas_row, 1, minus_infinity);
  if (options.emits("col_sum")) by_key(result.col_sum, 0);
  if (options.emits("row_entropy")) by_query(result.row_entropy, 1, 0.0);
  if (options.emits("centre")) by_query(result.centre, input.depth, 0.0);
  if (options.emits("variance")) by_query(result.variance, 1, 0.0);
  if (options.emits("prior")) by_query(result.prior, 1, 0.0);
}

// What repeated attention ends with, as far as it is written.
template <class T>
void take_repeated(const ComputeOptions& options, const RepeatedScores<T>& repeated,
                   HeadResult<T>& result) {
  if (options.emits("centre")) {
    const Buffer<double> centre = repeated.queries();
    result.centre.assign(centre.begin(), centre.end());
  }
  if (options.emits("variance")) {
    const PooledVector<double>& variance = repeated.mixture().variance;
    result.variance.assign(variance.begin(), variance.end());
  }
  if (!options.emits("prior")) return;
  for (const double log : repeated.mixture().log_prior) result.prior.push_back(std::exp(log));
}

// Writes the results of a head that are its scores rather than what is made of them.
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

SchemeOptions scheme_of_head(const ComputeOptions& options, const AttentionInput& input,
                             Index problem) {
  SchemeOptions scheme = options.scheme;
  scheme.sink = input.sink_of(problem);
  if (!options.hybrid.empty()) scheme.hybrid = options.hybrid[static_cast<std::size_t>(problem)];
  return scheme;
}

template <class T>
HeadResult<T> compute_head(const ComputeOptions& options, const AttentionInput& input,
                           const Head<T>& head, const HeadOutputs& outputs,
                           std::int64_t useful_bytes, Checkpoint* checkpoint, int threads) {
  HeadResult<T> result;
  std::vector<Observer<T>*> observers;
  std::optional<Output<T>> output;
  ColumnSums<T> sums;
  RowEntropy<T> entropy;
  std::optional<WeightsWriter<T>> weights;
  const Index queries = head.scores().rows();
  const Index width = input.v_head_dim;
  if (options.needs_out()) {
    result.out = Buffer<T>(queries * width);
    const MatrixView<T> out(result.out.data(), queries, width);
    observers.push_back(&output.emplace(head.v(), out));
  }
  if (options.emits("col_sum")) observers.push_back(&sums);
  if (options.emits("row_entropy")) observers.push_back(&entropy);
  if (options.emits("weights")) {
    weights.emplace(outputs.dataset("weights"), outputs.position(head.problem), input.all_pairs(),
                    head.part.range, options.queries ? &*options.queries : nullptr);
    if (!options.queries) observers.push_back(&*weights);
  }
  SchemeOptions scheme = scheme_of_head(options, input, head.problem);
  scheme.kept_bytes = useful_bytes;
  std::optional<HeadState> state;
  if (checkpoint != nullptr && checkpoint->takes_states()) {
    scheme.keeper = &state.emplace(*checkpoint);
  }
  const ScoreRecipe recipe = input.recipe(scheme.scheme);
  std::optional<RepeatedScores<T>> repeated;
  naming_head(input, head, [&] {
    if (!options.repetition) return;
    repeated.emplace(recipe, head.arrays(), scheme, *options.repetition, options.emits_gradients(),
                     threads);
  });
  const RepeatedScores<T>* const moved = repeated ? &*repeated : nullptr;
  const Scores<T>& scores = repeated ? repeated->scores() : head.scores(scheme.scheme);
  naming_head(input, head, [&] {
    result.attention = attend(scores, scheme, observers, threads);
    result.log_likelihood =
        log_likelihoods_of(recipe, head.arrays(), scores, moved, scheme, result.attention);
  });
  if (repeated) {
    result.attention.summary.iterations = options.repetition->iterations;
    take_repeated(options, *repeated, result);
  }
  if (options.emits_gradients()) {
    const MatrixView<const T> out(result.out.data(), queries, width);
    result.gradients =
        head_gradients<T>(options, input, head, scheme, moved, result.attention, out, threads);
  }
  if (options.emits("col_sum")) result.col_sum = sums.values();
  if (options.emits("row_entropy")) {
    result.row_entropy = entropy.values();
    add_sink_entropies(sink_weights(result.attention.potentials, scheme), result.row_entropy);
  }
  // After the gradients, which need the output before the gate.
  if (head.arrays().gate != nullptr && output) {
    apply_gate<T>(*head.arrays().gate, {result.out.data(), queries, width});
  }
  if (options.join) {
    const MatrixView<const T> out(result.out.data(), queries, width);
    differentiate_join(options, input, head, out, threads, result.gradients);
  }
  emit_scores(options, input, head, scores, outputs, threads);
  if (weights && options.queries) {
    // After the pass over all: it need not make every weight for the sake of a few.
    show_rows<T>(scores, scheme, result.attention.potentials,
                 own_queries(*options.queries, head.part.range), {&*weights}, threads);
  }
  spread(options, input, head.problem, result);
  if (options.needs_out()) {
    spread_rows(result.out, head.part.range.row0, input.queries, input.v_head_dim, T{0});
  }
  // It was needed for gradients alone.
  if (!options.emits("out") && !options.join) result.out = Buffer<T>();
  if (!options.queries) return result;
  if (result.out.size() > 0) keep_chosen(*options.queries, result.out.data(), width);
  if (options.emits("row_entropy")) keep_chosen(*options.queries, result.row_entropy.data(), 1);
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
  const kernel::Ranks::Use rows(kernel::Ranks::current(), needs.ranks.cut);
  const MemoryPlan plan = plan_memory(input, sizeof(T), needs, arguments.threads, arguments.memory);
  create_results(outputs, options, input, sizeof(T) == sizeof(double));
  // Without u the three potentials do not rebuild the mixture.
  const bool keep_hybrid =
      arguments.only && options.emits("unas_row_potential") && !arguments.number("hybrid");
  if (keep_hybrid) outputs.create("hybrid", DType::f64, {}, {});
  GradientWriter<T> gradients(bundle, options.gradients, input, report);
  std::optional<JoinedWriter<T>> joined;
  if (options.join) {
    joined.emplace(bundle, input, options.queries ? &*options.queries : nullptr, report);
  }
  ComputeTotals totals;
  totals.scheme.padding = input.padding();
  bool has_likelihood = true;
  const auto keep = [&](Index problem, HeadResult<T>& result) {
    const Potentials& potentials = result.attention.potentials;
    outputs.write("out", problem, result.out.data());
    if (joined) joined->add(problem, result.out.data(), plan.threads);
    outputs.write("row_potential", problem, potentials.row.data());
    outputs.write("col_potential", problem, potentials.col.data());
    outputs.write("unas_row_potential", problem, potentials.unas_row.data());
    outputs.write("col_sum", problem, result.col_sum.data());
    outputs.write("row_entropy", problem, result.row_entropy.data());
    outputs.write("centre", problem, result.centre.data());
    outputs.write("variance", problem, result.variance.data());
    outputs.write("prior", problem, result.prior.data());
    if (keep_hybrid) {
      outputs.write("hybrid", problem, &options.hybrid[static_cast<std::size_t>(problem)]);
    }
    if (!result.gradients.empty()) gradients.add(problem, result.gradients);
    totals.scheme.add(result.attention);
    has_likelihood = has_likelihood && !result.log_likelihood.empty();
    totals.add_likelihood(result.log_likelihood);
  };
  const double seconds = for_each_head<T, HeadResult<T>>(
      input, plan, progress,
      [&](double least_bias) { warn_of_finite_masks(least_bias, {options.scheme.scheme}, report); },
      [&](const Head<T>& head, int threads) {
        return compute_head<T>(options, input, head, outputs, plan.useful_bytes, checkpoint,
                               threads);
      },
      keep, checkpoint);
  report.add_compute_seconds(seconds);
  if (!has_likelihood) totals.log_likelihood.clear();
  return totals;
}

}  // namespace

ComputeTotals compute_section(const cli::Arguments& arguments, const ComputeTask& task,
                              io::OutputBundle output, Checkpoint* checkpoint,
                              cli::Progress& progress, cli::Report& report) {
  HeadOutputs outputs(output, task.input.leading, report, task.input.share.get());
  warn_of_surprises(task.options, task.input, report);
  const auto run = task.f64 ? compute<double> : compute<float>;
  ComputeTotals totals = run(arguments, task, output, outputs, checkpoint, progress, report);
  if (task.options.queries) write_queries(*task.options.queries, output, report);
  record_results(arguments, task.options, task.input, task.f64, totals.scheme, output);
  return totals;
}

}  // namespace attn::tools
