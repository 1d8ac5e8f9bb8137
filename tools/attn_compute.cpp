// attn-compute: scores → potentials → output, one head after the other.

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"
#include "scheme/output.hpp"
#include "shared/attention_results.hpp"
#include "shared/bundles.hpp"
#include "shared/compute_report.hpp"
#include "shared/query_list.hpp"
#include "shared/sections.hpp"
#include "shared/weights_writer.hpp"
#include "stats/observers.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("attn-compute",
                     "Computes attention from queries and keys, exactly, at any length",
                     cli::Role::transform);
  d.about(
      "Reads q (..., Lq, d), k (..., Lk, d) and, where there is one, v (..., Lk, dv) from a "
      "bundle, "
      "finds the potentials of the attention weights and writes the bundle with the results added. "
      "mask (non-zero = may attend), bias (added to the scores, -inf allowed), key_length (B) "
      "(keys "
      "behind it are padding) and hybrid are used where they are there. Leading axes broadcast; q "
      "may have a multiple of k's heads. Where tensors come with attributes attn_energy, "
      "attn_scale "
      "and the like, those are the defaults; not so where an earlier run has left them.");
  d.section("Attention");
  d.choice(
      "scheme", {"unas", "dnas", "hnas", "sinkhorn", "fenchel"},
      "unas: softmax. dnas: columns normalised, then rows. hnas: u dnas + (1-u) unas. sinkhorn: "
      "dnas' two steps repeated. fenchel: softmax of alpha <q,k> + log preference.",
      "unas");
  declare_score_options(d, false);
  d.number("hybrid", "U", "u of hnas; else the dataset hybrid, a scalar or one per head.",
           {0, 1, false, false});
  d.integer("iterations", "T",
            "Of sinkhorn: exactly T, or at most T where --tolerance is given (1000).", 1,
            Index{1} << 40);
  d.number("tolerance", "E",
           "Of sinkhorn: stop when the column sums are off their marginals by at most the share E "
           "(1e-6 in float32, 1e-10 in float64, unless --iterations is given alone).",
           {0, 1, true, false});
  d.choices("emit", {"out", "weights", "row_potential", "col_potential", "col_sum", "row_entropy"},
            "What to write (default: out where there is a v, and the potentials). weights is the "
            "only one that takes Lq x Lk numbers.");
  declare_sections(d);
  d.text("queries", "LIST",
         "Write out, weights and row_entropy of these queries alone, such as 0,17,100:108,-1; the "
         "weights stay normalised over all queries. Dataset queries says which they are.");
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats",
            "which keys does nobody attend to?");
  d.example(
      "attn-compute -i q=dump.h5:/layer3/Q -i k=dump.h5:/layer3/K \\\n"
      "      --emit col_sum -o c.h5",
      "column sums of tensors that lie elsewhere");
  d.example("attn-compute --each '/text/*/layer*' --map q=Q,k=K,v=V dump.h5 -o out.h5",
            "a model's whole dump");
  d.exit_status(1, "sinkhorn did not converge; the results are written, attn_status says so");
  return d;
}

template <class T>
struct HeadResult {
  Buffer<T> out;
  Attention attention;
  std::vector<double> col_sum;
  std::vector<double> row_entropy;
};

// An option that would change nothing is a mistake that is told.
void require_effect(const cli::Arguments& arguments, Scheme scheme) {
  const auto goes_with = [&](const char* option, Scheme only) {
    if (!arguments.given(option) || scheme == only) return;
    throw Error(Failure::usage,
                fmt::format("--{} goes with --scheme {}", option, scheme_name(only)));
  };
  goes_with("hybrid", Scheme::hnas);
  goes_with("iterations", Scheme::sinkhorn);
  goes_with("tolerance", Scheme::sinkhorn);
  goes_with("alpha", Scheme::fenchel);
}

ComputeOptions resolve(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  ComputeOptions options;
  options.scheme.scheme = scheme_of(arguments.text("scheme")).value();
  // Those of an earlier run are its own; those that came with the tensors say what they are.
  const bool made_here = bundle.text_attribute("attn_scheme").has_value();
  options.scores = resolve_score_options(arguments, made_here ? nullptr : &bundle);
  options.scheme.iterations = arguments.integer("iterations");
  options.scheme.tolerance = arguments.number("tolerance");
  require_effect(arguments, options.scheme.scheme);
  const std::string values = options.scores.source == ScoreOptions::Source::projection ? "wv" : "v";
  const auto wanted = arguments.words_of("emit");
  options.emitted.insert(wanted.begin(), wanted.end());
  if (wanted.empty()) {
    options.emitted = {"row_potential", "col_potential"};
    if (bundle.has(values)) options.emitted.insert("out");
  }
  // The third vector without which the mixture cannot be rebuilt.
  if (options.emits("row_potential") && options.scheme.scheme == Scheme::hnas) {
    options.emitted.insert("unas_row_potential");
  }
  // Refused by name where it is asked for and not there.
  if (options.emits("out")) static_cast<void>(bundle.dataset(values));
  return options;
}

void warn_about_leaks(const ComputeOptions& options, const AttentionInput& input,
                      cli::Report& report) {
  if (is_softmax(options.scheme.scheme)) return;
  const std::string scheme = scheme_name(options.scheme.scheme);
  if (input.causal != Causal::none) {
    report.warn("under " + scheme +
                " a query sees later queries through the column normalisation, causal mask or not: "
                "fine for analysis, a leak in an autoregressive model");
  }
  if (input.queries == 1 && options.scheme.scheme != Scheme::hnas) {
    report.warn("with one query " + scheme + " is uniform over the keys it may attend to");
  }
}

template <class T>
HeadResult<T> compute_head(const ComputeOptions& options, const AttentionInput& input,
                           const Head<T>& head, const HeadOutputs& outputs, int threads) {
  HeadResult<T> result;
  std::vector<Observer<T>*> observers;
  std::optional<Output<T>> output;
  ColumnSums<T> sums;
  RowEntropy<T> entropy;
  std::optional<WeightsWriter<T>> weights;
  const Index queries = head.scores().rows();
  if (options.emits("out")) {
    result.out = Buffer<T>(queries * head.v().cols);
    output.emplace(head.v(), MatrixView<T>(result.out.data(), queries, head.v().cols));
    observers.push_back(&*output);
  }
  if (options.emits("col_sum")) observers.push_back(&sums);
  if (options.emits("row_entropy")) observers.push_back(&entropy);
  if (options.emits("weights")) {
    weights.emplace(outputs.dataset("weights"), outputs.position(head.problem),
                    options.queries ? &*options.queries : nullptr);
    if (!options.queries) observers.push_back(&*weights);
  }
  SchemeOptions scheme = options.scheme;
  if (!options.hybrid.empty()) {
    scheme.hybrid = options.hybrid[static_cast<std::size_t>(head.problem)];
  }
  result.attention =
      naming([&] { return input.place(head.problem); },
             [&] { return attend(head.scores(scheme.scheme), scheme, observers, threads); });
  if (options.emits("col_sum")) result.col_sum = sums.values();
  if (options.emits("row_entropy")) result.row_entropy = entropy.values();
  if (!options.queries) return result;
  if (weights) {
    // After the pass over all: it need not make every weight for the sake of a few.
    show_rows<T>(head.scores(), scheme, result.attention.potentials, *options.queries, {&*weights},
                 threads);
  }
  if (options.emits("out")) keep_chosen(*options.queries, result.out.data(), head.v().cols);
  if (options.emits("row_entropy")) keep_chosen(*options.queries, result.row_entropy.data(), 1);
  return result;
}

// What there is to do for one section: INPUT, or one group of it.
struct Task {
  Task(const cli::Arguments& arguments, io::InputBundle section)
      : bundle(std::move(section)),
        options(resolve(arguments, bundle)),
        input(bundle, options.scores, options.emits("out"), {options.scheme.scheme}),
        f64(arguments.f64.value_or(input.any_float64)) {
    if (options.scheme.scheme == Scheme::hnas) {
      options.hybrid = hybrid_per_head(arguments, bundle, input, false);
    }
    if (arguments.given("queries")) choose_queries(arguments);
  }

  // Results of an earlier run would no longer belong to the attributes. Datasets of such names that
  // are none of ours go only where they are written anew.
  std::vector<std::string> replaced() const {
    return bundle.text_attribute("attn_scheme") ? result_names() : std::vector<std::string>{};
  }

  void report_params(cli::Report& report) const {
    report_score_options(options.scores, input.causal, report);
    report.params()["precision"] = f64 ? "f64" : "f32";
  }

  io::InputBundle bundle;
  ComputeOptions options;
  AttentionInput input;
  bool f64;

 private:
  void choose_queries(const cli::Arguments& arguments) {
    const auto& kinds = result_kinds();
    const bool applies = std::any_of(kinds.begin(), kinds.end(), [&](const ResultKind& kind) {
      return kind.by_choice && options.emits(kind.name);
    });
    if (!applies) {
      throw Error(Failure::usage,
                  "--queries applies to out, weights and row_entropy, none of which "
                  "is written",
                  "--emit weights");
    }
    options.queries = parse_queries(arguments.text("queries"), input.queries, bundle.description());
  }
};

template <class T>
Totals compute(const cli::Arguments& arguments, const Task& task, HeadOutputs& outputs,
               cli::Progress& progress, cli::Report& report) {
  const ComputeOptions& options = task.options;
  const AttentionInput& input = task.input;
  const MemoryPlan plan = plan_memory(input, sizeof(T), compute_needs(options, input, sizeof(T)),
                                      arguments.threads, arguments.memory);
  create_results(outputs, options, input, sizeof(T) == sizeof(double));
  // Without u the three potentials do not rebuild the mixture.
  const bool keep_hybrid =
      arguments.only && options.emits("unas_row_potential") && !arguments.number("hybrid");
  if (keep_hybrid) outputs.create("hybrid", DType::f64, {}, {});
  const Index shown = options.queries ? options.queries->count() : input.queries;
  Totals totals;
  const double seconds = for_each_head<T, HeadResult<T>>(
      input, plan, progress,
      [&](const Head<T>& head, int threads) {
        return compute_head<T>(options, input, head, outputs, threads);
      },
      [&](Index problem, HeadResult<T>& result) {
        const Potentials& potentials = result.attention.potentials;
        outputs.write("out", problem, {shown, input.value_depth}, result.out.data());
        outputs.write("row_potential", problem, {input.queries}, potentials.row.data());
        outputs.write("col_potential", problem, {input.keys}, potentials.col.data());
        outputs.write("unas_row_potential", problem, {input.queries}, potentials.unas_row.data());
        outputs.write("col_sum", problem, {input.keys}, result.col_sum.data());
        outputs.write("row_entropy", problem, {shown}, result.row_entropy.data());
        if (keep_hybrid) {
          outputs.write("hybrid", problem, {}, &options.hybrid[static_cast<std::size_t>(problem)]);
        }
        totals.add(result.attention);
      });
  report.add_compute_seconds(seconds);
  return totals;
}

// The results of one section, written to `output` but not yet committed.
Totals compute_section(const cli::Arguments& arguments, const Task& task, io::OutputBundle output,
                       cli::Progress& progress, cli::Report& report) {
  HeadOutputs outputs(output, task.input.leading, report);
  warn_about_leaks(task.options, task.input, report);
  const Totals totals = task.f64 ? compute<double>(arguments, task, outputs, progress, report)
                                 : compute<float>(arguments, task, outputs, progress, report);
  if (task.options.queries) write_queries(*task.options.queries, output, report);
  record_results(arguments, task.options, task.input, task.f64, totals, output);
  return totals;
}

cli::Outcome report_costs(const cli::Arguments& arguments, const Sections& sections,
                          cli::Report& report) {
  GroupReport groups;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const Task task(arguments, sections.open(n));
    for (const auto& dataset : task.input.datasets()) report_input(report, dataset);
    task.report_params(report);
    if (sections.each()) {
      report.print(fmt::format("{}{}\n", n == 0 ? "" : "\n", sections.groups()[n]));
    }
    groups.add(sections.groups()[n], report,
               [&] { report_cost(arguments, task.options, task.input, task.f64, report); });
  }
  if (sections.each()) {
    groups.write(report);
  } else {
    report.result() = groups.last();
  }
  return {};
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  const Sections sections(arguments);
  if (arguments.dry_run) return report_costs(arguments, sections, report);

  // All are looked at before the first is computed.
  std::vector<std::vector<std::string>> replaced;
  Index heads = 0;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const Task task(arguments, sections.open(n));
    for (const auto& dataset : task.input.datasets()) report_input(report, dataset);
    replaced.push_back(task.replaced());
    heads += task.input.problems;
  }

  SectionOutput output(arguments, sections, replaced);
  cli::Progress progress(arguments, arguments.text("scheme"), static_cast<double>(heads), "heads");
  GroupReport groups;
  Totals totals;
  cli::Outcome outcome;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const Task task(arguments, sections.open(n));
    groups.add(sections.groups()[n], report, [&] {
      task.report_params(report);
      const Totals found = compute_section(arguments, task, output.open(n), progress, report);
      totals.add(found);
      outcome = conclude(task.options, task.input, task.f64, found, report);
    });
    if (sections.each() && n + 1 == sections.size()) {
      outcome = conclude_groups(groups, task.options, heads, totals, report);
    }
  }
  output.commit();
  if (!sections.each()) report.result() = groups.last();
  return outcome;
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(
      argc, argv, attn::tools::declare(), attn::tools::run,
      {attn::kernel::blas_description(), std::string("SIMD ") + attn::kernel::simd_description()});
}
