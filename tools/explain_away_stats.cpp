// explain-away-stats: column sums, and what follows from them.

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"
#include "shared/attention_results.hpp"
#include "shared/bundles.hpp"
#include "shared/column_gather.hpp"
#include "shared/column_groups.hpp"
#include "shared/column_report.hpp"
#include "shared/group_report.hpp"
#include "shared/head_outputs.hpp"
#include "shared/sections.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

cli::Declaration declare() {
  cli::Declaration d("explain-away-stats", "Finds the keys that attention explains away",
                     cli::Role::report);
  d.about(
      "The column sum of key j, c_j = sum_i weight_ij, is all the attention it gets. A key is "
      "explained away when c_j < epsilon. Softmax (unas) may do that to any key; under dnas c_j is "
      "at "
      "least 1/Lk. Computed anew from q and k with the scores the bundle was made with, or taken "
      "from "
      "what it holds (stored: its weights, else its potentials).");
  d.section("Statistics");
  d.choices("scheme", {"unas", "dnas", "hnas", "sinkhorn", "fenchel", stored},
            "Normalisations to compare. Default: unas,dnas; stored where there are no q and k.");
  d.numbers("epsilon", "E", "Thresholds of explaining away.", {0, infinity, true, true}, {1e-8});
  d.number("hybrid", "U", "u of hnas. Default: the bundle's.", {0, 1, false, false});
  d.integer("bins", "N", "Bins of the histogram of log10 c_j. Default: up to 24, at round places.",
            1, 10000);
  d.integer("top", "N", "How many keys with the least and the most attention to list.", 0,
            Index{1} << 40, 10);
  d.flag("tsv",
         "Print the figures of every group, head and scheme as tab-separated values, with a line "
         "of names, in place of the report.");
  d.section("Scores");
  declare_score_options(d, true);
  declare_sections(d);
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats", "unas beside dnas");
  d.example("explain-away-stats --epsilon 1e-8,1e-3 --json=stats.json layer3.h5",
            "two thresholds, and the figures for a script");
  d.example("explain-away-stats --each '/text/*/layer*' --map q=Q,k=K --causal dump.h5",
            "a model's whole dump: layers by heads");
  d.exit_status(1, "a proven bound on the column sums is broken, or sinkhorn did not converge");
  return d;
}

// tokens (Lk), or (B, Lk) for the outermost of the leading axes.
void read_names(const io::InputBundle& bundle, ColumnStatistics& statistics, cli::Report& report) {
  if (!bundle.has("tokens")) return;
  const io::InputDataset tokens = bundle.dataset("tokens");
  const Shape& shape = tokens.shape();
  const bool one_list = shape == Shape{statistics.keys} || shape == Shape{1, statistics.keys};
  const bool per_batch =
      !statistics.leading.empty() && shape == Shape{statistics.leading.front(), statistics.keys};
  if (tokens.dtype() != DType::string || (!one_list && !per_batch)) {
    report.warn(tokens.address() + " is not used: it has shape " + to_string(shape) + " and type " +
                std::string(name(tokens.dtype())) + ", expected strings of " +
                to_string({statistics.keys}));
    return;
  }
  statistics.names = tokens.read_strings();
  statistics.heads_per_name =
      one_list ? statistics.heads() : statistics.heads() / statistics.leading.front();
}

SummaryOptions summary_options(const cli::Arguments& arguments) {
  SummaryOptions options;
  options.epsilons = arguments.numbers("epsilon");
  options.top = arguments.integer("top").value();
  options.bins = arguments.integer("bins");
  return options;
}

// What there is to do for one section: INPUT, or one group of it.
struct Task {
  Task(const cli::Arguments& arguments, io::InputBundle section)
      : bundle(std::move(section)),
        options(resolve_column_options(arguments, bundle)),
        input(bundle, options.scores, false, options.scored_schemes()) {
    require_all_rows();
    complete_column_options(arguments, bundle, input, options);
  }

  void report_params(cli::Report& report) const {
    report_score_options(input.options, input.causal, report);
    report.params()["precision"] = options.f64 ? "f64" : "f32";
    report.params()["scheme"] = options.schemes;
  }

  io::InputBundle bundle;
  ColumnOptions options;
  AttentionInput input;

 private:
  // Column sums over some queries would look like those over all.
  void require_all_rows() const {
    if (!options.wants(stored) || !bundle.has("weights") || !bundle.has("queries") ||
        !bundle.text_attribute("attn_scheme")) {
      return;
    }
    throw Error(Failure::input,
                bundle.dataset("weights").address() +
                    " holds the rows of some queries, expected those of all",
                "attn-compute without --queries writes them");
  }
};

// Writes the vectors of each head as they are found: of all heads together they are large.
class VectorWriter {
 public:
  VectorWriter(io::OutputBundle bundle, const Task& task, cli::Report& report)
      : bundle_(std::move(bundle)), outputs_(bundle_, task.input.leading, report) {
    for (const std::string& scheme : task.options.schemes) {
      outputs_.create(scheme + "_col_sum", DType::f64, {task.input.keys}, {"key"});
      outputs_.create(scheme + "_row_entropy", DType::f64, {task.input.queries}, {"query"});
    }
  }

  void write(const std::string& scheme, Index head, const HeadColumns& columns) {
    outputs_.write(scheme + "_col_sum", head, {static_cast<Index>(columns.sums.size())},
                   columns.sums.data());
    outputs_.write(scheme + "_row_entropy", head, {static_cast<Index>(columns.entropies.size())},
                   columns.entropies.data());
  }

 private:
  io::OutputBundle bundle_;
  HeadOutputs outputs_;
};

// The tables of one section, as text.
std::string long_report(const Task& task, const ColumnStatistics& statistics,
                        const SummaryOptions& wanted, const ColumnSummaries& summaries) {
  const AttentionInput& input = task.input;
  const ScoreOptions& scores = input.options;
  const std::string energy =
      input.q ? energy_name(scores.energy_of(task.options.scored_schemes().front())) : "as stored";
  return fmt::format("{}: {}, {}, {}\n\n", task.bundle.description(),
                     times(join(input.leading, {input.queries, input.keys})), energy,
                     task.options.f64 ? "float64" : "float32") +
         column_report(statistics, wanted, summaries);
}

// Of all sections: a broken bound is the worst that can be said.
struct Verdict {
  bool broken = false;
  bool unconverged = false;

  std::string word() const { return broken ? "no" : (unconverged ? "not_converged" : "ok"); }
  int status() const { return broken || unconverged ? 1 : 0; }

  void add(const ColumnStatistics& statistics, const ColumnSummaries& summaries,
           const std::string& group, cli::Report& report) {
    for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
      if (!summaries.schemes[n].all.holds) broken = true;
      if (statistics.schemes[n].converged) continue;
      unconverged = true;
      report.warn(statistics.schemes[n].name + " did not converge on every head" +
                  (group.empty() ? "" : " of " + group));
    }
  }
};

void report_cost(const cli::Arguments& arguments, const Task& task, cli::Report& report) {
  const AttentionInput& input = task.input;
  const MemoryPlan plan = plan_memory(input, task.options.f64 ? sizeof(double) : sizeof(float),
                                      column_needs(task.options, task.bundle, input),
                                      arguments.threads, arguments.memory);
  const Shape shape = join(input.leading, {input.queries, input.keys});
  const auto heads = static_cast<double>(input.problems);
  const double pairs = heads * static_cast<double>(input.queries) * static_cast<double>(input.keys);
  double passes = 0;
  for (const std::string& name : task.options.schemes) {
    const std::optional<Scheme> scheme = scheme_of(name);
    passes += scheme ? score_passes(task.options.scheme_options(*scheme, 0)) : 1;
  }
  const double flops = 2 * pairs * passes * static_cast<double>(input.depth);
  const double bytes = !arguments.output
                           ? 0
                           : heads * static_cast<double>(input.queries + input.keys) *
                                 static_cast<double>(task.options.schemes.size()) * sizeof(double);
  report.result()["shape"] = shape;
  report.result()["working_bytes"] = plan.bytes;
  report.result()["result_bytes"] = bytes;
  report.result()["flops"] = flops;
  report.print(fmt::format(
      "column sums of {} in {}\nworking memory  {}, and some 30 MB for the program itself\n"
      "results         {}{}\narithmetic      {:.3g} flops\n",
      times(shape), task.options.f64 ? "float64" : "float32",
      bytes_text(static_cast<double>(plan.bytes)), bytes_text(bytes),
      arguments.compress > 0 ? " before they are compressed" : "", flops));
}

// One line of figures for a program, or a table for a person.
void report_groups(const cli::Arguments& arguments, const std::vector<GroupColumns>& groups,
                   const Sections& sections, cli::Report& report) {
  const SummaryOptions wanted = summary_options(arguments);
  if (arguments.flag("tsv")) {
    report.print_data(groups_tsv(groups, wanted));
  } else if (sections.each()) {
    report.print(sections.whole().description() + ": " + groups_report(groups, wanted));
  }
}

void require_one_report(const cli::Arguments& arguments) {
  if (!arguments.flag("tsv")) return;
  if (arguments.json && arguments.json->empty()) {
    throw Error(Failure::usage, "--tsv and --json both go to standard output",
                "name a file: --json=FILE");
  }
  if (arguments.bundle_to_stdout()) {
    throw Error(Failure::usage, "--tsv and the bundle both go to standard output",
                "name a file: -o FILE");
  }
}

// Everything is looked at before anything is computed; gives the number of heads.
Index look_at_all(const cli::Arguments& arguments, const Sections& sections, GroupReport& groups,
                  cli::Report& report) {
  Index heads = 0;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const Task task(arguments, sections.open(n));
    for (const auto& dataset : task.input.datasets()) report_input(report, dataset);
    heads += task.input.problems;
    if (!arguments.dry_run) continue;
    if (sections.each()) {
      report.print(fmt::format("{}{}\n", n == 0 ? "" : "\n", sections.groups()[n]));
    }
    groups.add(sections.groups()[n], report, [&] {
      task.report_params(report);
      report_cost(arguments, task, report);
    });
  }
  return heads;
}

void finish(const Sections& sections, const GroupReport& groups, const Verdict& verdict,
            cli::Report& report) {
  if (sections.each()) {
    groups.write(report);
    report.result()["status"] = verdict.word();
  } else {
    report.result() = groups.last();
  }
  report.status(verdict.word());
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  require_one_report(arguments);
  const Sections sections(arguments);
  GroupReport reports;
  const Index heads = look_at_all(arguments, sections, reports, report);
  if (arguments.dry_run) {
    finish(sections, reports, {}, report);
    return {};
  }
  std::optional<SectionOutput> output;
  if (arguments.output) {
    output.emplace(arguments, sections, std::vector<std::vector<std::string>>(sections.size()));
  }
  cli::Progress progress(arguments, "column sums", static_cast<double>(heads), "heads");
  std::vector<GroupColumns> groups;
  Verdict verdict;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const std::string& group = sections.groups()[n];
    const Task task(arguments, sections.open(n));
    if (task.options.wants(stored) &&
        task.bundle.text_attribute("attn_status") == "not_converged") {
      report.warn("the stored weights had not converged when they were made");
    }
    reports.add(group, report, [&] {
      task.report_params(report);
      std::optional<VectorWriter> writer;
      if (output) writer.emplace(output->open(n), task, report);
      ColumnStatistics statistics = gather_columns(
          arguments, task.options, task.bundle, task.input,
          [&](const std::string& scheme, Index head, const HeadColumns& columns) {
            if (writer) writer->write(scheme, head, columns);
          },
          progress, report);
      read_names(task.bundle, statistics, report);
      const SummaryOptions wanted = summary_options(arguments);
      ColumnSummaries summaries = summarise_columns(statistics, wanted);
      // Of thousands of heads it is larger than all that it tells of.
      if (arguments.json) report.result() = column_json(statistics, summaries);
      if (!sections.each() || arguments.verbose) {
        report.print(long_report(task, statistics, wanted, summaries) +
                     (sections.each() ? "\n" : ""));
      }
      verdict.add(statistics, summaries, group, report);
      groups.push_back({group, statistics.leading, task.options.schemes, std::move(summaries)});
    });
  }
  if (output) output->commit();
  report_groups(arguments, groups, sections, report);
  finish(sections, reports, verdict, report);
  return {verdict.status(), ""};
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(
      argc, argv, attn::tools::declare(), attn::tools::run,
      {attn::kernel::blas_description(), std::string("SIMD ") + attn::kernel::simd_description()});
}
