#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "basis_paths/network_verbs.hpp"
#include "basis_paths/path_verbs.hpp"
#include "cli/words.hpp"
#include "common/frame/section_tool.hpp"

namespace attn::tools {

// The frame of basis-paths, for the tasks of attention weights (PathTask, PathRun) and of networks
// (NetworkTask, NetworkRun).

/// Calls the function of the run's verb.
std::string run_verb(PathRun& run);
std::string run_verb(NetworkRun& run);

/// Throws Error(usage) if --map renames a dataset that the verb updates: the verb writes it under
/// its own name, and a loop would read the old numbers.
template <class Task>
void require_own_names(const Task& task, const cli::Arguments& arguments,
                       const Sections& sections) {
  const std::vector<std::string> verbs = {"start", "step", "rescale", "reconstruct"};
  if (std::find(verbs.begin(), verbs.end(), task.verb) == verbs.end()) return;
  const RunEffect effect = task.effect(arguments);
  for (const auto& [name, stored] : sections.renamed()) {
    if (name == stored || effect.results.count(name) + effect.replaced.count(name) == 0) continue;
    throw Error(Failure::usage,
                fmt::format("--map has {}={}, which {} would not update: it writes or uses up {} "
                            "under that name",
                            name, stored, task.verb, name));
  }
}

template <class Task>
class PathTool : public SectionTool<Task> {
  using SectionTool<Task>::SectionTool;

  std::string unit() const override { return "part"; }

  void check(const Task& task) override {
    require_own_names(task, this->arguments(), this->sections());
  }

  void report_cost(const Task& task) override {
    report_path_cost(this->arguments(), task, this->report());
  }
};

template <class Task, class Run>
class TransformPaths : public PathTool<Task> {
  using PathTool<Task>::PathTool;

  io::OutputBundle::Options output_options() const override {
    // Panels are parts of rows, some KiB of each.
    io::OutputBundle::Options options;
    options.least_part = 4096;
    return options;
  }

  void begin(Index problems) override {
    progress_.emplace(this->arguments(), this->arguments().verb, static_cast<double>(problems),
                      std::string(Task::unit) + "s");
  }

  void compute(const Task& task, const std::string& /*group*/,
               std::optional<io::OutputBundle> results) override {
    Run run(this->arguments(), task, *std::move(results), this->checkpoint(), *progress_,
            this->report());
    summary_ = run_verb(run) + ", " + task.shape_words();
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    groups.conclude(this->sections().several(), this->report());
    const std::string& verb = this->arguments().verb;
    const std::string problems = cli::counted(this->problems(), Task::unit);
    cli::Outcome outcome;
    if (this->divides_problems()) {
      outcome.summary = fmt::format("{}, {} of a shard", verb, problems);
      return outcome;
    }
    outcome.summary =
        !this->sections().several()
            ? summary_
            : fmt::format("{}, {} in {}", verb, problems, cli::counted(groups.size(), "group"));
    return outcome;
  }

  std::optional<cli::Progress> progress_;
  std::string summary_;  // of the section computed last
};

template <class Task>
class CheckPaths : public PathTool<Task> {
  using PathTool<Task>::PathTool;

  void compute(const Task& task, const std::string& group,
               std::optional<io::OutputBundle> /*results*/) override {
    this->print_heading(group);
    if (!check_paths(this->arguments(), task, this->checkpoint(), this->report())) holds_ = false;
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    groups.conclude(this->sections().several(), this->report());
    if (!holds_) this->report().status("no");
    return {holds_ ? 0 : 1};
  }

  bool holds_ = true;  // of all sections
};

template <class Task, class Run>
cli::Outcome run_tool(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.verb == "check") return CheckPaths<Task>(arguments, report).run();
  return TransformPaths<Task, Run>(arguments, report).run();
}

}  // namespace attn::tools
