#include "sinkhorn_iter/bulk.hpp"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/section_tool.hpp"
#include "reports/bulk_report.hpp"
#include "sinkhorn_iter/bulk_run.hpp"
#include "sinkhorn_iter/bulk_task.hpp"

namespace attn::tools {
namespace {

class Bulk : public SectionTool<BulkTask> {
  using SectionTool::SectionTool;

  void check(const BulkTask& task) override {
    if (!task.against || (!is_shard() && !sections().several())) return;
    throw Error(Failure::usage, "--against compares one INPUT, without groups and --shard");
  }

  void report_cost(const BulkTask& task) override {
    const double element = task.f64 ? sizeof(double) : sizeof(float);
    double bytes = 0;
    if (task.emits("plan")) bytes += element * task.input.size;
    if (task.emits("grad_scores")) bytes += element * task.input.size;
    if (task.emits("row_potential")) bytes += static_cast<double>(task.rows) * sizeof(double);
    if (task.emits("col_potential")) bytes += static_cast<double>(task.cols) * sizeof(double);
    if (task.emits("error")) bytes += sizeof(double);
    if (task.emits("chain")) bytes += 3 * sizeof(double);
    report().result()["problems"] = task.input.own_problems();
    report_run_cost(
        {bulk_words(task.input.own_problems(), task.rows, task.cols, task.f64, task.iterations),
         plan_bulk(arguments(), task).bytes, bytes * static_cast<double>(task.input.own_problems()),
         arguments().compress > 0,
         fmt::format("{:.3g} flops", (task.differentiates() ? 12 : 4) * task.input.size *
                                         static_cast<double>(task.input.own_problems()) *
                                         static_cast<double>(task.iterations))},
        report());
  }

  void begin(Index problems) override {
    progress_.emplace(arguments(), "sinkhorn", static_cast<double>(problems), "problems");
  }

  void compute(const BulkTask& task, const std::string& /*label*/,
               std::optional<io::OutputBundle> results) override {
    io::OutputBundle output = *std::move(results);
    const BulkNotes found{section(),
                          sections().several(),
                          task.rows,
                          task.cols,
                          task.f64,
                          task.iterations,
                          run_bulk(arguments(), task, output, *progress_, report())};
    for (const auto& [name, value] : task.effect(arguments()).attributes) {
      write_settings({{name, value}}, output);
    }
    if (is_shard()) keep_for_join(notes_of(found));
    reporter_.add(found, report());
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    return reporter_.conclude(groups, report());
  }

  std::optional<cli::Progress> progress_;
  BulkReporter reporter_;
};

}  // namespace

void declare_bulk(cli::Declaration& d) {
  d.choice("order", {"columns", "rows"},
           "The half of each iteration that comes first. rows: the softmax of each row, then "
           "columns, then T - 1 times rows and columns, as in the residual connections of "
           "DeepSeek-V4.",
           "columns");
  d.number("eps", "E",
           "Adds E to each entry of the first softmax, and to each later sum by which a row or "
           "column is divided, as kernels do. Needs square problems, finite scores, and no a and "
           "b. There are no potentials.",
           {0, 1, false, false}, 0.0);
  d.text("against", "FILE",
         "Compares the datasets plan and grad_scores of FILE, of a kernel, with those computed "
         "here in float64. Matrices differ if the rounding of their type, and of float32 in the "
         "computation, does not explain it; the exit status is then 1.");
  d.flag("chain",
         "Multiplies the plans along the third axis from the end, as layers: chain (..., L, 3) "
         "has the gains of P1, P2 P1, ...: the largest singular value, row sum and column sum, "
         "which are 1 in the limit of many iterations.");
}

cli::Outcome bulk(const cli::Arguments& arguments, cli::Report& report) {
  return Bulk(arguments, report).run();
}

}  // namespace attn::tools
