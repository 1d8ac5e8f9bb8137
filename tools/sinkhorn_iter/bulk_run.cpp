#include "sinkhorn_iter/bulk_run.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/costs/block_plan.hpp"
#include "common/frame/bundles.hpp"
#include "common/outputs/block_output.hpp"
#include "common/outputs/position_boxes.hpp"
#include "head/operand.hpp"
#include "parallel/parallel_for.hpp"
#include "sinkhorn/plan_chain.hpp"
#include "sinkhorn/small_problems.hpp"
#include "sinkhorn_iter/bulk_comparison.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {
namespace {

// Of one worker: what it reads is still in its cache when it writes.
constexpr std::int64_t useful_bytes = std::int64_t{1} << 20;

// False if one is NaN. Without branches, as this looks at every number.
template <class Number>
bool all_within(const Number* numbers, Index count, Number least, Number most) {
  bool within = true;
  for (Index n = 0; n < count; ++n) within &= (numbers[n] >= least) & (numbers[n] <= most);
  return within;
}

// The numbers that a dataset may have.
template <class Number>
struct Allowed {
  Number least;
  const char* expected;
};

template <class T>
class BulkWorker {
 public:
  using Written = std::map<std::string, io::OutputDataset>;

  BulkWorker(const BulkTask& task, const Written& written) : task_(task), written_(written) {
    if (task.against) against_.emplace(*task.against, task.rows, task.cols, task.iterations);
  }

  void compute(Index first, Index count) {
    const Index rows = task_.rows;
    const Index cols = task_.cols;
    const Index pairs = count * rows * cols;
    constexpr T lowest = std::numeric_limits<T>::lowest();
    const T least_score = task_.eps > 0 ? lowest : -std::numeric_limits<T>::infinity();
    read<T>(task_.scores, {rows, cols}, first, count, scores_,
            {least_score, task_.eps > 0 ? "finite numbers with --eps" : "finite numbers or -inf"});
    kernel::SmallProblems<T> problems = {count, rows, cols, scores_.data()};
    problems.row_marginal = marginal(task_.a, rows, first, count, a_, problems.row_step);
    problems.col_marginal = marginal(task_.b, cols, first, count, b_, problems.col_step);
    problems.rows_first = task_.rows_first;
    problems.eps = task_.eps;
    kernel::SmallResults<T> results;
    results.plan = result("plan", pairs, plan_, task_.chained || against_);
    results.row_potential = result("row_potential", count * rows, f_);
    results.col_potential = result("col_potential", count * cols, g_);
    results.error = result("error", count, error_, true);
    if (task_.differentiates()) {
      read<T>(*task_.grad_plan, {rows, cols}, first, count, grad_plan_, {lowest, "finite numbers"});
      problems.grad_plan = grad_plan_.data();
      results.grad_scores = result("grad_scores", pairs, grad_scores_, true);
    }
    const auto start = std::chrono::steady_clock::now();
    const SmallSummary found = solve_small(problems, results, task_.iterations, 1);
    if (task_.chained) multiply(count);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    figures_.scaled += found.scaled;
    figures_.largest_error = std::max(figures_.largest_error, found.largest_error);
    for (Index n = 0; n < count; ++n) figures_.errors.add(results.error[n]);
    write("plan", {rows, cols}, first, count, results.plan);
    write("row_potential", {rows}, first, count, results.row_potential);
    write("col_potential", {cols}, first, count, results.col_potential);
    write("error", {}, first, count, results.error);
    if (results.grad_scores != nullptr) {
      require_range(first, count);
      write("grad_scores", {rows, cols}, first, count, results.grad_scores);
    }
    if (task_.chained) write_chain(first);
    if constexpr (std::is_same_v<T, double>) {
      if (!against_) return;
      against_->add(first, count,
                    {scores_.data(), plan_.data(), grad_plan_.data(), grad_scores_.data()});
    }
  }

  BulkFigures figures() const {
    BulkFigures all = figures_;
    if (against_) all.differences = against_->found();
    return all;
  }

  double seconds() const { return seconds_; }

 private:
  // The positions [first, first + count) of a dataset with the own axes `own`.
  template <class Number>
  void read(const ArraySource& dataset, const Shape& own, Index first, Index count,
            Buffer<Number>& to, const Allowed<Number>& allowed) const {
    to.reserve(std::max<Index>(1, count * element_count(own)));
    for_position_boxes(task_.input.leading, own, first, count,
                       [&](const Shape& start, const Shape& box, Index place) {
                         read_box<Number>(dataset, start, box, to.data() + place, allowed);
                       });
  }

  template <class Number>
  static void read_box(const ArraySource& dataset, const Shape& start, const Shape& box,
                       Number* numbers, const Allowed<Number>& allowed) {
    constexpr Number most = std::numeric_limits<Number>::max();
    dataset.read(start, box, numbers);
    const Index count = element_count(box);
    if (all_within(numbers, count, allowed.least, most)) return;
    const Number* const bad = std::find_if(numbers, numbers + count, [&](Number value) {
      return !(value >= allowed.least && value <= most);
    });
    refuse_element(dataset, start, box, bad - numbers, *bad, allowed.expected);
  }

  // A marginal, and its step from problem to problem.
  const double* marginal(const std::optional<ArraySource>& dataset, Index length, Index first,
                         Index count, Buffer<double>& numbers, Index& step) const {
    if (!dataset) return nullptr;
    constexpr Allowed<double> masses{0, "finite numbers >= 0"};
    const bool by_problem = dataset->shape().size() > 1 || task_.input.leading.empty();
    step = by_problem ? length : 0;
    if (by_problem) {
      read<double>(*dataset, {length}, first, count, numbers, masses);
    } else {
      numbers.reserve(length);
      read_box<double>(*dataset, {0}, {length}, numbers.data(), masses);
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
                         io::OutputDataset(written_.at(name)).write(start, box, numbers + place);
                       });
  }

  void require_range(Index first, Index count) const {
    constexpr T most = std::numeric_limits<T>::max();
    const Index size = task_.rows * task_.cols;
    for (Index n = 0; n < count; ++n) {
      if (all_within(grad_scores_.data() + n * size, size, -most, most)) continue;
      throw Error(Failure::numerical,
                  fmt::format("grad_scores exceeds {} at {}", task_.f64 ? "float64" : "float32",
                              to_string(unravel(first + n, task_.input.leading))),
                  task_.f64 ? "" : "--precision f64");
    }
  }

  void multiply(Index count) {
    const Index depth = task_.together();
    const Index size = task_.rows;
    chain_.resize(static_cast<std::size_t>(count));
    for (Index at = 0; at < count; at += depth) {
      chain_gains(plan_.data() + at * size * size, depth, size, chain_.data() + at);
      figures_.add_chain(chain_[static_cast<std::size_t>(at + depth - 1)]);
    }
  }

  void write_chain(Index first) {
    std::vector<double> numbers;
    for (const ChainGain& gain : chain_) {
      numbers.insert(numbers.end(), {gain.spectral, gain.largest_row, gain.largest_column});
    }
    write("chain", {3}, first, static_cast<Index>(chain_.size()), numbers.data());
  }

  const BulkTask& task_;
  const Written& written_;
  BulkFigures figures_;
  double seconds_ = 0;
  std::optional<KernelComparison> against_;
  Buffer<T> scores_, plan_, grad_plan_, grad_scores_;
  Buffer<double> a_, b_, f_, g_, error_;
  std::vector<ChainGain> chain_;
};

template <class T>
class BulkRun {
 public:
  BulkRun(const cli::Arguments& arguments, const BulkTask& task, io::OutputBundle& output,
          cli::Report& report)
      : task_(task), plan_(plan_bulk(arguments, task)), output_(output), report_(report) {}

  BulkFigures run(cli::Progress& progress) {
    constexpr DType type = dtype_of<T>();
    create("plan", {task_.rows, task_.cols}, {"query", "key"}, type);
    create("row_potential", {task_.rows}, {"query"}, DType::f64);
    create("col_potential", {task_.cols}, {"key"}, DType::f64);
    create("error", {}, {}, DType::f64);
    create("grad_scores", {task_.rows, task_.cols}, {"query", "key"}, type);
    create("chain", {3}, {"gain"}, DType::f64);
    std::vector<BulkWorker<T>> workers;
    for (int n = 0; n < plan_.workers; ++n) workers.emplace_back(task_, written_);
    const Index problems = task_.input.own_problems();
    const Index blocks = (problems + plan_.problems - 1) / plan_.problems;
    parallel_for(blocks, plan_.workers, [&](Index block, int worker) {
      const Index first = block * plan_.problems;
      const Index count = std::min(plan_.problems, problems - first);
      workers[static_cast<std::size_t>(worker)].compute(task_.input.own_first() + first, count);
      progress.advance(static_cast<double>(count));
    });
    BulkFigures figures;
    if (task_.chained) figures.largest = {0, 0, 0};
    double seconds = 0;
    for (const BulkWorker<T>& worker : workers) {
      figures.add(worker.figures());
      seconds += worker.seconds();
    }
    figures.problems = problems;
    report_.add_compute_seconds(seconds / plan_.workers);
    return figures;
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

  const BulkTask& task_;
  BulkPlan plan_;
  io::OutputBundle& output_;
  cli::Report& report_;
  typename BulkWorker<T>::Written written_;
};

}  // namespace

BulkPlan plan_bulk(const cli::Arguments& arguments, const BulkTask& task) {
  for (const ArraySource& dataset : task.datasets()) {
    require_readable(dataset, arguments.memory);
  }
  const Index together = std::max<Index>(1, task.together());
  const Index units = std::max<Index>(1, task.input.own_problems() / together);
  const std::int64_t kept =
      solve_small_bytes(0, task.rows, task.cols, task.differentiates() ? task.iterations : 0, 1);
  const std::int64_t unit_bytes = together * task.problem_bytes();
  const std::int64_t fitting = arguments.memory / (kept + unit_bytes);
  BulkPlan plan;
  plan.workers = static_cast<int>(std::clamp<std::int64_t>(
      std::min<std::int64_t>(arguments.threads, units), 1, std::max<std::int64_t>(1, fitting)));
  const Index own = (units + plan.workers - 1) / plan.workers;
  const BlockPlan blocks =
      plan_blocks(task.chained ? "one chain of plans" : "one problem", plan.workers * kept,
                  plan.workers * unit_bytes, own, arguments.memory, plan.workers * useful_bytes);
  plan.problems = blocks.rows * together;
  plan.bytes = blocks.bytes;
  return plan;
}

BulkFigures run_bulk(const cli::Arguments& arguments, const BulkTask& task,
                     io::OutputBundle& output, cli::Progress& progress, cli::Report& report) {
  if (task.f64) return BulkRun<double>(arguments, task, output, report).run(progress);
  return BulkRun<float>(arguments, task, output, report).run(progress);
}

}  // namespace attn::tools
