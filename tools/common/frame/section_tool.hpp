#pragma once

#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/sections.hpp"
#include "common/results/results.hpp"
#include "common/runs/restart.hpp"
#include "common/runs/run_identity.hpp"
#include "common/shards/section_share.hpp"
#include "common/tables/group_report.hpp"
#include "system/stop_requests.hpp"

namespace attn::tools {

/// The frame of a tool that runs over sections: INPUT itself or the groups of --each. Every section
/// is checked before the first is computed, --dry-run reports only costs, and the results and
/// reports of all sections are combined. A tool implements the steps in a derived class.
///
/// A Task is the work of one section. Its constructor, Task(arguments, bundle), checks everything
/// except the numbers. It has datasets(), effect(arguments) and report_params(report), the
/// InputBundle `bundle`, and `input` with the number of `problems`. Its static function
/// suffices(arguments, bundle) says whether `bundle` has datasets from which it can compute.
///
/// With --shard the tool checks all sections and computes its shard's sections. If there is only
/// one section, and the Task has units() of problems that can be computed separately, the shard
/// computes some of its problems; `input.share` says which.
template <class Task>
class SectionTool {
 public:
  /// Opens INPUT. Both arguments must outlive the tool. Throws the errors of Sections.
  SectionTool(const cli::Arguments& arguments, cli::Report& report)
      : arguments_(arguments),
        report_(report),
        sections_(arguments, report, [&](const io::InputBundle& bundle) {
          return Task::suffices(arguments, bundle);
        }) {
    if (const std::optional<Shard> shard = shard_of(arguments)) share_.emplace(arguments, *shard);
  }
  virtual ~SectionTool() = default;
  SectionTool(const SectionTool&) = delete;
  SectionTool& operator=(const SectionTool&) = delete;

  /// Runs all steps, from the checks to the outcome, whose `commit` completes the output.
  cli::Outcome run() {
    if (arguments_.dry_run) return report_costs();
    return run_with_restarts(arguments_, report_, unit(), [&](Checkpoint* checkpoint) {
      checkpoint_ = checkpoint;
      return run_sections();
    });
  }

 protected:
  const cli::Arguments& arguments() const { return arguments_; }
  cli::Report& report() const { return report_; }
  const Sections& sections() const { return sections_; }
  Index problems() const { return problems_; }  ///< of all sections

  const SectionName& section() const { return name_; }  ///< the section being computed

  /// Whether the tool runs with --shard; and the notes on its report that it then keeps for
  /// tensor-join.
  bool is_shard() const { return share_.has_value(); }
  bool divides_problems() const { return share_ && share_->problems() != nullptr; }
  void keep_for_join(ReportNotes notes) {
    notes.params = params_text(report_);
    notes.warnings = report_.own_warnings().size();
    share_->keep(std::move(notes));
  }

  /// The outcome of a shard whose report tensor-join makes: "3 heads of a shard", followed by
  /// `failure` and with the status 1 if some did not converge.
  cli::Outcome shard_outcome(bool converged, const char* failure) const {
    cli::Outcome outcome;
    outcome.summary = cli::counted(problems_, "head") + " of a shard";
    if (converged) return outcome;
    outcome.summary += failure;
    outcome.status = 1;
    report_.status("not_converged");
    return outcome;
  }

  /// The checkpoint of the run; null without --checkpoint.
  Checkpoint* checkpoint() const { return checkpoint_; }

  /// With several sections, prints the name of one above its report, with a blank line between.
  void print_heading(const std::string& label) {
    if (!sections_.several()) return;
    if (headed_) report_.print("\n");
    report_.print_line(label);
    headed_ = true;
  }

 private:
  cli::Outcome run_sections() {
    survey();
    if (sections_.size() == 0) return write_empty_shard();
    std::optional<SectionOutput> output;
    if (arguments_.output)
      output.emplace(arguments_, sections_, std::move(plans_), output_options());
    begin(problems_);
    StopRequests::work_begins();
    GroupReport groups;
    for (std::size_t section = 0; section < sections_.size(); ++section) {
      const std::unique_ptr<const Task> task = take(section);
      name_ = sections_.name(section);
      groups.add(name_, report_, [&] {
        task->report_params(report_);
        std::optional<io::OutputBundle> results;
        if (output) results = output->open(section);
        compute(*task, name_.label, std::move(results));
      });
    }
    cli::Outcome outcome = conclude(groups);
    // A tool writes either a bundle or a table.
    if (output) {
      io::OutputBundle whole = output->take(report_);
      if (share_) share_->mark(whole, report_);
      outcome.commit = commit_of(std::move(whole), report_);
    }
    return outcome;
  }

  /// The unit of work of a checkpoint, as messages call it.
  virtual std::string unit() const { return "head"; }

  /// Throws Error(usage) if a task and the sections contradict each other.
  virtual void check(const Task&) {}

  /// --dry-run: fills the report's result for one section.
  virtual void report_cost(const Task& task) = 0;

  /// Completes the report of --dry-run.
  virtual void conclude_costs(const GroupReport& groups) {
    groups.conclude(sections_.several(), report_);
  }

  /// Whether a task keeps elements of datasets, which the memory plans of other sections ignore.
  virtual bool holds_numbers(const Task&) const { return false; }

  virtual io::OutputBundle::Options output_options() const { return {}; }

  /// Called once before the first section is computed, with the problems of all of them.
  virtual void begin(Index /*problems*/) {}

  /// Computes one section: figures go into the report's result; datasets and attributes go into
  /// `results`, which is absent without --output. `label` is "" for INPUT itself.
  virtual void compute(const Task& task, const std::string& label,
                       std::optional<io::OutputBundle> results) = 0;

  /// Completes the report of all sections; returns the summary line and the exit status.
  virtual cli::Outcome conclude(const GroupReport& groups) = 0;

  static constexpr bool has_units = requires(const Task& task) { task.units(); };

  // A task keeps datasets open in HDF5; for thousands of groups that would take too much memory.
  static constexpr std::size_t most_kept_tasks = 64;

  std::unique_ptr<const Task> make(std::size_t section) const {
    auto task = std::make_unique<Task>(arguments_, sections_.open(section));
    if constexpr (has_units) {
      if (share_) task->input.share = share_->problems();
    }
    return task;
  }

  std::unique_ptr<const Task> take(std::size_t section) {
    return kept_[section] ? std::move(kept_[section]) : make(section);
  }

  bool keeps(std::size_t section, const Task& task) const {
    return sections_.size() == 1 || (section < most_kept_tasks && !holds_numbers(task));
  }

  std::unique_ptr<const Task> look_at(std::size_t section) {
    std::unique_ptr<const Task> task = make(section);
    check(*task);
    for (const ArraySource& dataset : task->datasets()) report_input(report_, dataset);
    return task;
  }

  void survey() {
    for (std::size_t section = 0; section < sections_.size(); ++section) {
      std::unique_ptr<const Task> task = look_at(section);
      counts_.push_back(problems_of(*task));
      if (arguments_.output) plans_.push_back(plan_of(arguments_, *task));
      if (share_) {
        cli::Arguments whole = arguments_;
        whole.only = false;
        share_->add(sections_.name(section), work_of(*task), plan_of(whole, *task));
      }
      if (!keeps(section, *task)) task.reset();
      kept_.push_back(std::move(task));
    }
    sections_.warn_of_root(arguments_, report_);
    warn_of_unused(arguments_, sections_.whole(), report_);
    if (share_) {
      share_->keep_unused(unused_options(arguments_, sections_.whole()));
      divide();
    }
    problems_ = std::accumulate(counts_.begin(), counts_.end(), Index{0});
  }

  ResultPlan plan_of(const cli::Arguments& arguments, const Task& task) const {
    return plan_results(arguments, task.bundle, task.effect(arguments), sections_.renamed());
  }

  /// The number of problems to compute.
  static Index problems_of(const Task& task) {
    if constexpr (requires { task.input.own_problems(); }) return task.input.own_problems();
    return task.input.problems;
  }

  /// The number of pairs of queries and keys, if the task has such pairs, else of problems.
  static double work_of(const Task& task) {
    if constexpr (requires { task.input.pairs(); }) return task.input.pairs();
    return static_cast<double>(task.input.problems);
  }

  static std::vector<double> work_by_problem(const Task& task) {
    if constexpr (requires { task.work(); })
      return task.work();
    else
      return task.input.pairs_by_problem();
  }

  // Drops the problems of other shards. Returns whether problems are divided.
  bool divide_problems() {
    if constexpr (has_units) {
      if (sections_.size() != 1) return false;
      const std::unique_ptr<const Task> task = make(0);
      const ProblemUnits units = task->units();
      // A group can be a unit itself.
      if (sections_.several() && units.units().size() <= 1) return false;
      require_no_table_of_heads(arguments_);
      share_->divide(units, work_by_problem(*task));
      kept_.clear();
      kept_.resize(1);  // tasks made from now on have the share
      counts_.assign(1, share_->problems()->size());
      if (share_->problems()->size() == 0) sections_.keep(0, 0);
      return true;
    }
    return false;
  }

  // Drops the sections of other shards.
  void divide() {
    if (divide_problems()) return;
    if (!sections_.several()) {
      throw Error(
          Failure::usage,
          "--shard divides groups, but " + sections_.description() + " is computed as a whole",
          "one run without --shard computes it");
    }
    const auto [first, last] = share_->own();
    sections_.keep(first, last);
    const auto keep = [first = static_cast<std::ptrdiff_t>(first),
                       last = static_cast<std::ptrdiff_t>(last)](auto& items) {
      if (items.empty()) return;  // in a dry run
      items.erase(items.begin() + last, items.end());
      items.erase(items.begin(), items.begin() + first);
    };
    keep(counts_);
    keep(plans_);
    keep(kept_);
  }

  cli::Outcome write_empty_shard() {
    io::OutputBundle output = open_output_like(arguments_, sections_.whole(), {}, output_options());
    share_->mark(output, report_);
    cli::Outcome outcome;
    outcome.summary = share_->without_work();
    outcome.commit = commit_of(std::move(output), report_);
    return outcome;
  }

  cli::Outcome report_costs() {
    if (share_) {
      for (std::size_t n = 0; n < sections_.size(); ++n) {
        share_->add(sections_.name(n), work_of(*make(n)));
      }
      divide();
    }
    GroupReport groups;
    for (std::size_t section = 0; section < sections_.size(); ++section) {
      const std::unique_ptr<const Task> task = look_at(section);
      task->report_params(report_);
      print_heading(sections_.name(section).label);
      groups.add(sections_.name(section), report_, [&] { report_cost(*task); });
    }
    sections_.warn_of_root(arguments_, report_);
    warn_of_unused(arguments_, sections_.whole(), report_);
    conclude_costs(groups);
    return {};
  }

  const cli::Arguments& arguments_;
  cli::Report& report_;
  Sections sections_;
  Checkpoint* checkpoint_ = nullptr;
  std::optional<SectionShare> share_;  // with --shard
  Index problems_ = 0;
  SectionName name_;
  bool headed_ = false;
  std::vector<ResultPlan> plans_;                  // by section
  std::vector<std::unique_ptr<const Task>> kept_;  // by section; null: make it again
  std::vector<Index> counts_;                      // of problems, by section
};

}  // namespace attn::tools
