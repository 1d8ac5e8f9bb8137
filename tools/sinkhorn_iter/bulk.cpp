#include "sinkhorn_iter/bulk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "common/costs/block_plan.hpp"
#include "common/costs/cost_report.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/section_tool.hpp"
#include "common/outputs/block_output.hpp"
#include "common/outputs/position_boxes.hpp"
#include "head/operand.hpp"
#include "parallel/parallel_for.hpp"
#include "reports/bulk_report.hpp"
#include "sinkhorn/plan_chain.hpp"
#include "sinkhorn/small_problems.hpp"
#include "sinkhorn_iter/bulk_task.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {
namespace {

constexpr std::int64_t useful_bytes = std::int64_t{32} << 20;

// The number of problems in memory at a time, a multiple of whole chains.
BlockPlan plan_bulk(const cli::Arguments& arguments, const BulkTask& task) {
  for (const ArraySource& dataset : task.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  const Index chains = task.together() == 0 ? 0 : task.input.own_problems() / task.together();
  BlockPlan plan = plan_blocks(task.chained ? "one chain of plans" : "one problem",
                               solve_small_bytes(0, task.rows, task.cols, arguments.threads),
                               std::max<std::int64_t>(1, task.together() * task.problem_bytes()),
                               std::max<Index>(1, chains), arguments.memory, useful_bytes);
  plan.rows *= task.together();
  return plan;
}

template <class T>
class BulkRun {
 public:
  BulkRun(const cli::Arguments& arguments, const BulkTask& task, io::OutputBundle& output,
          cli::Progress& progress, cli::Report& report)
      : arguments_(arguments), task_(task), output_(output), progress_(progress), report_(report) {}

  BulkFigures run() {
    create("plan", {task_.rows, task_.cols}, {"query", "key"}, task_.f64 ? DType::f64 : DType::f32);
    create("row_potential", {task_.rows}, {"query"}, DType::f64);
    create("col_potential", {task_.cols}, {"key"}, DType::f64);
    create("error", {}, {}, DType::f64);
    create("chain", {3}, {"gain"}, DType::f64);
    figures_.problems = task_.input.own_problems();
    if (task_.chained) figures_.largest = {0, 0, 0};
    const Index most = plan_bulk(arguments_, task_).rows;
    const Index end = task_.input.own_first() + task_.input.own_problems();
    for (Index first = task_.input.own_first(); first < end; first += most) {
      const Index count = std::min(most, end - first);
      compute(first, count);
      progress_.advance(static_cast<double>(count));
    }
    return figures_;
  }

 private:
  void create(const std::string& name, const Shape& own, std::vector<std::string> axes,
              DType type) {
    if (!task_.emits(name)) return;
    const Shape& leading = task_.input.leading;
    BlockLayout layout{
        .name = name, .shape = join(leading, own), .axes = first_axes(leading.size())};
    layout.labels.assign(leading.size(), "");
    layout.labels.insert(layout.labels.end(), axes.begin(), axes.end());
    written_.emplace(
        name,
        BlockOutput(output_, type, std::move(layout), task_.input.share.get(), report_).dataset());
  }

  // The positions [first, first + count) of a dataset with the own axes `own`.
  template <class Number>
  void read(const ArraySource& dataset, const Shape& own, Index first, Index count,
            Buffer<Number>& to, const char* expected, bool (*allowed)(Number)) const {
    const Index size = element_count(own);
    to.reserve(std::max<Index>(1, count * size));
    for_position_boxes(task_.input.leading, own, first, count,
                       [&](const Shape& start, const Shape& box, Index place) {
                         Number* const numbers = to.data() + place;
                         dataset.read(start, box, numbers);
                         for (Index n = 0; n < element_count(box); ++n) {
                           if (allowed(numbers[n])) continue;
                           refuse_element(dataset, start, box, n, numbers[n], expected);
                         }
                       });
  }

  // A marginal, and its step from problem to problem.
  const double* marginal(const std::optional<ArraySource>& dataset, Index length, Index first,
                         Index count, Buffer<double>& numbers, Index& step) const {
    if (!dataset) return nullptr;
    constexpr auto is_allowed = [](double value) {
      return value >= 0 && value <= std::numeric_limits<double>::max();
    };
    const bool by_problem = dataset->shape().size() > 1 || task_.input.leading.empty();
    step = by_problem ? length : 0;
    if (by_problem) {
      read<double>(*dataset, {length}, first, count, numbers, "finite numbers >= 0", is_allowed);
    } else {
      numbers.reserve(length);
      dataset->read({0}, {length}, numbers.data());
      for (Index n = 0; n < length; ++n) {
        if (is_allowed(numbers.data()[n])) continue;
        refuse_element(*dataset, {0}, {length}, n, numbers.data()[n], "finite numbers >= 0");
      }
    }
    return numbers.data();
  }

  template <class Number>
  Number* result(const char* name, Index numbers, Buffer<Number>& memory, bool needed = false) {
    if (!needed && !task_.emits(name)) return nullptr;
    memory.reserve(std::max<Index>(1, numbers));
    return memory.data();
  }

  template <class Number>
  void write(const char* name, const Shape& own, Index first, Index count, const Number* numbers) {
    if (!task_.emits(name)) return;
    // A shard's dataset holds its own problems, one after the other.
    const BulkTask::Input& input = task_.input;
    for_position_boxes(input.share ? Shape{input.own_problems()} : input.leading, own,
                       first - input.own_first(), count,
                       [&](const Shape& start, const Shape& box, Index place) {
                         written_.at(name).write(start, box, numbers + place);
                       });
  }

  void compute(Index first, Index count) {
    const Index rows = task_.rows;
    const Index cols = task_.cols;
    read<T>(task_.scores, {rows, cols}, first, count, scores_, "finite numbers or -inf",
            [](T value) { return value <= std::numeric_limits<T>::max(); });
    kernel::SmallProblems<T> problems = {count, rows, cols, scores_.data()};
    problems.row_marginal = marginal(task_.a, rows, first, count, a_, problems.row_step);
    problems.col_marginal = marginal(task_.b, cols, first, count, b_, problems.col_step);
    kernel::SmallResults<T> results;
    results.plan = result("plan", count * rows * cols, plan_, task_.chained);
    results.row_potential = result("row_potential", count * rows, f_);
    results.col_potential = result("col_potential", count * cols, g_);
    results.error = result("error", count, error_, true);
    SmallSummary found;
    report_.compute([&] {
      found = solve_small(problems, results, task_.iterations, arguments_.threads);
      if (task_.chained) multiply(count);
    });
    figures_.scaled += found.scaled;
    figures_.largest_error = std::max(figures_.largest_error, found.largest_error);
    for (Index n = 0; n < count; ++n) figures_.errors.add(results.error[n]);
    write("plan", {rows, cols}, first, count, results.plan);
    write("row_potential", {rows}, first, count, results.row_potential);
    write("col_potential", {cols}, first, count, results.col_potential);
    write("error", {}, first, count, results.error);
    if (task_.chained) write_chain(first);
  }

  void multiply(Index count) {
    const Index depth = task_.together();
    const Index size = task_.rows;
    chain_.resize(static_cast<std::size_t>(count));
    parallel_for(count / depth, arguments_.threads, [&](Index token, int) {
      chain_gains(plan_.data() + token * depth * size * size, depth, size,
                  chain_.data() + token * depth);
    });
    for (Index last = depth - 1; last < count; last += depth) {
      const ChainGain& gain = chain_[static_cast<std::size_t>(last)];
      figures_.add_chain(gain);
    }
  }

  void write_chain(Index first) {
    std::vector<double> numbers;
    for (const ChainGain& gain : chain_) {
      numbers.insert(numbers.end(), {gain.spectral, gain.largest_row, gain.largest_column});
    }
    write("chain", {3}, first, static_cast<Index>(chain_.size()), numbers.data());
  }

  const cli::Arguments& arguments_;
  const BulkTask& task_;
  io::OutputBundle& output_;
  cli::Progress& progress_;
  cli::Report& report_;
  BulkFigures figures_;
  std::map<std::string, io::OutputDataset> written_;
  Buffer<T> scores_, plan_;
  Buffer<double> a_, b_, f_, g_, error_;
  std::vector<ChainGain> chain_;
};

class Bulk : public SectionTool<BulkTask> {
  using SectionTool::SectionTool;

  void report_cost(const BulkTask& task) override {
    const double element = task.f64 ? sizeof(double) : sizeof(float);
    double bytes = 0;
    if (task.emits("plan")) bytes += element * task.input.size;
    if (task.emits("row_potential")) bytes += static_cast<double>(task.rows) * sizeof(double);
    if (task.emits("col_potential")) bytes += static_cast<double>(task.cols) * sizeof(double);
    if (task.emits("error")) bytes += sizeof(double);
    if (task.emits("chain")) bytes += 3 * sizeof(double);
    report().result()["problems"] = task.input.own_problems();
    report_run_cost(
        {bulk_words(task.input.own_problems(), task.rows, task.cols, task.f64, task.iterations),
         plan_bulk(arguments(), task).bytes, bytes * static_cast<double>(task.input.own_problems()),
         arguments().compress > 0,
         fmt::format("{:.3g} flops", 4 * task.input.size *
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
    const BulkNotes found{
        section(),
        sections().several(),
        task.rows,
        task.cols,
        task.f64,
        task.iterations,
        task.f64 ? BulkRun<double>(arguments(), task, output, *progress_, report()).run()
                 : BulkRun<float>(arguments(), task, output, *progress_, report()).run()};
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
  d.flag("chain",
         "Multiplies the plans along the third axis from the end, as layers: chain (..., L, 3) "
         "has the gains of P1, P2 P1, ...: the largest singular value, row sum and column sum, "
         "which are 1 in the limit of many iterations.");
}

cli::Outcome bulk(const cli::Arguments& arguments, cli::Report& report) {
  return Bulk(arguments, report).run();
}

}  // namespace attn::tools
