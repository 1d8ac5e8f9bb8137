#include "mode_collapse_sim/collapse_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "common/frame/bundles.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/runs/restart.hpp"
#include "head/operand.hpp"
#include "mode_collapse_sim/collapse_output.hpp"
#include "reports/collapse_report.hpp"
#include "scheme/scheme_description.hpp"
#include "system/stop_requests.hpp"

namespace attn::tools {

// Outside the unnamed namespace, in which the archive of a vector would not find it.
template <class Archive>
void archive(Archive& with, collapse::ClusterStatistics& one) {
  archive(with, one.centre);
  archive(with, one.spread);
  archive(with, one.distance);
  archive(with, one.modes);
}

namespace {

using Statistics = std::vector<collapse::ClusterStatistics>;  // by step

// The result of one set under one scheme.
template <class T>
struct SchemeRun {
  Index steps = 0;  // done so far
  Statistics statistics;
  std::vector<double> least;  // least distance of two centres, by step
  std::vector<double> log_likelihood;
  std::vector<T> trajectory;  // with a checkpoint; else it is written as it is made
  Totals totals;
};

template <class Archive, class T>
void archive(Archive& with, SchemeRun<T>& run) {
  archive(with, run.steps);
  archive(with, run.statistics);
  archive(with, run.least);
  archive(with, run.log_likelihood);
  archive(with, run.trajectory);
  archive(with, run.totals);
}

template <class T>
struct SetRun {
  std::vector<SchemeRun<T>> schemes;
};

template <class Archive, class T>
void archive(Archive& with, SetRun<T>& run) {
  archive(with, run.schemes);
}

// A set in progress.
template <class T>
struct SetState {
  SetRun<T> run;
  Buffer<T> points;  // of the latest step
};

template <class Archive, class T>
void archive(Archive& with, SetState<T>& state) {
  archive(with, state.run);
  archive(with, state.points);
}

template <class T>
class Simulation {
  // The plans of a thread, which serve one set after the other.
  struct Plans {
    collapse::ClusterPlan<T> statistics;
    std::vector<collapse::SelfAttentionPlan<T>> steps;  // by scheme
  };

 public:
  Simulation(const cli::Arguments& arguments, const SimulationTask& task, io::OutputBundle& bundle,
             Checkpoint* checkpoint, cli::Report& report)
      : task_(task),
        checkpoint_(checkpoint),
        plan_(task.plan(arguments)),
        outputs_(bundle, task.sets.leading, report, task.sets.share.get(),
                 task.sets.drawn() ? "seed" : "set"),
        progress_(arguments, "simulating",
                  static_cast<double>(task.sets.own_sets() * task.steps) *
                      static_cast<double>(task.schemes.size()),
                  "steps") {
    const PointSets& sets = task.sets;
    const Shape points{sets.points, sets.dimension};
    for (int worker = 0; worker < plan_.at_once(); ++worker) {
      plans_.push_back({{points, {sets.points}, sets.clusters, task.width, 1}, {}});
      for (const collapse::SelfAttentionOptions& scheme : task.schemes) {
        plans_.back().steps.emplace_back(points, scheme, plan_.inside());
      }
    }
    write_drawn_points<T>(sets, task.emitted, bundle, outputs_, report);
    const Index times = task.steps + 1;
    const Index c = sets.clusters;
    const bool pair = c == 2;
    constexpr DType type = sizeof(T) == sizeof(double) ? DType::f64 : DType::f32;
    for (std::size_t k = 0; k < task.names.size(); ++k) {
      const std::string& scheme = task.names[k];
      create(scheme, "trajectory", type, {times, sets.points, sets.dimension},
             {"step", "point", "dimension"}, trajectory_chunk(arguments));
      create(scheme, "centre", DType::f64, {times, c, sets.dimension},
             {"step", "cluster", "dimension"});
      create(scheme, "centre_distance", DType::f64, pair ? Shape{times} : Shape{times, c, c},
             pair ? std::vector<std::string>{"step"}
                  : std::vector<std::string>{"step", "cluster", "cluster"});
      create(scheme, "spread", DType::f64, {times, c}, {"step", "cluster"});
      create(scheme, "modes", DType::f64, {times}, {"step"});
      if (task.has_likelihood(k)) create(scheme, "log_likelihood", DType::f64, {times}, {"step"});
    }
  }

  std::vector<SchemeRuns> run(cli::Report& report) {
    std::vector<SchemeRuns> all(task_.schemes.size());
    for_each_set<SetRun<T>>(
        task_.sets, plan_, report,
        [&](Index set, int worker) {
          return run_set(set, plans_[static_cast<std::size_t>(worker)]);
        },
        [&](Index set, const SetRun<T>& found) { keep(set, found.schemes, all); }, checkpoint_);
    return all;
  }

 private:
  void create(const std::string& scheme, const std::string& name, DType type, const Shape& shape,
              const std::vector<std::string>& labels, const Shape& chunk = {}) {
    if (task_.emits(name)) outputs_.create(scheme + "/" + name, type, shape, labels, chunk);
  }

  // With compression, each step of each set is written as whole chunks, whatever the order of
  // threads.
  Shape trajectory_chunk(const cli::Arguments& arguments) const {
    if (arguments.compress == 0) return {};
    constexpr Index most_bytes = Index{512} << 10;
    const Index row = task_.sets.dimension * static_cast<Index>(sizeof(T));
    return {1, std::clamp<Index>(most_bytes / row, 1, task_.sets.points), task_.sets.dimension};
  }

  SetRun<T> run_set(Index set, Plans& plans) {
    const PointSets& sets = task_.sets;
    const Index size = sets.points * sets.dimension;
    const Buffer<T> start(size);
    sets.read(set, start.data());
    const std::vector<std::int64_t> labels = sets.labels(set);
    Buffer<T> next(size);
    SetState<T> state;
    state.points = Buffer<T>(size);
    with_states(checkpoint_, state, [&](const std::function<void()>& keep_state) {
      auto& runs = state.run.schemes;
      for (;;) {
        if (!runs.empty()) run_scheme(set, runs.size() - 1, labels, plans, state, next, keep_state);
        if (runs.size() == task_.schemes.size()) return;
        std::copy_n(start.data(), size, state.points.data());
        runs.emplace_back();
      }
    });
    return std::move(state.run);
  }

  // Runs the remaining steps of a scheme.
  void run_scheme(Index set, std::size_t scheme, const std::vector<std::int64_t>& labels,
                  Plans& plans, SetState<T>& state, Buffer<T>& next,
                  const std::function<void()>& keep_state) {
    const PointSets& sets = task_.sets;
    const Shape shape{sets.points, sets.dimension};
    const TensorView<const std::int64_t> clusters(labels.data(), {sets.points});
    SchemeRun<T>& run = state.run.schemes[scheme];
    // A step that was stopped may already have recorded figures.
    run.statistics.resize(static_cast<std::size_t>(run.steps));
    run.least.resize(run.statistics.size());
    run.log_likelihood.resize(run.statistics.size());
    run.trajectory.resize(keeps_trajectory() ? run.statistics.size() * size_of_set() : 0);
    for (;;) {
      const Index step = run.steps;
      const TensorView<const T> points(state.points.data(), shape);
      const auto place = [&](Index at) {
        return fmt::format("{}, {}, step {}", sets.place(set), task_.names[scheme], at);
      };
      run.statistics.push_back(
          naming([&] { return place(step); },
                 [&] { return plans.statistics.run(points, clusters).front(); }));
      collapse::ClusterStatistics& last = run.statistics.back();
      run.least.push_back(last.least_distance());
      if (!task_.emits("centre_distance")) last.distance = {};
      show_points(set, task_.names[scheme], step, state.points, run.trajectory);
      const bool at_end = step == task_.steps;
      if (at_end && !task_.has_likelihood(scheme)) {
        run.log_likelihood.push_back(std::numeric_limits<double>::quiet_NaN());
        return;
      }
      const TensorView<T> to(at_end ? nullptr : next.data(), shape);
      const collapse::SelfAttentionStep found =
          naming([&] { return place(at_end ? step : step + 1); },
                 [&] { return plans.steps[scheme].step(points, to).front(); });
      run.log_likelihood.push_back(found.log_likelihood);
      if (at_end) return;
      const SchemeSummary summary{found.status, found.iterations, found.column_error,
                                  found.convergence};
      run.totals.add(Totals{summary});
      std::swap(state.points, next);
      ++run.steps;
      progress_.advance(1);
      keep_state();
    }
  }

  bool keeps_trajectory() const { return checkpoint_ != nullptr && task_.emits("trajectory"); }
  std::size_t size_of_set() const {
    return static_cast<std::size_t>(task_.sets.points * task_.sets.dimension);
  }

  void show_points(Index set, const std::string& scheme, Index step, const Buffer<T>& points,
                   std::vector<T>& trajectory) {
    if (!task_.emits("trajectory")) return;
    if (keeps_trajectory()) {
      trajectory.insert(trajectory.end(), points.begin(), points.begin() + size_of_set());
      return;
    }
    const Shape at = outputs_.position(set);
    outputs_.dataset(scheme + "/trajectory")
        .write(join(at, {step, 0, 0}),
               join(Shape(at.size() + 1, 1), {task_.sets.points, task_.sets.dimension}),
               points.data());
  }

  void keep(Index set, const std::vector<SchemeRun<T>>& found, std::vector<SchemeRuns>& all) {
    for (std::size_t k = 0; k < found.size(); ++k) {
      const SchemeRun<T>& run = found[k];
      all[k].distance.insert(all[k].distance.end(), run.least.begin(), run.least.end());
      all[k].log_likelihood.insert(all[k].log_likelihood.end(), run.log_likelihood.begin(),
                                   run.log_likelihood.end());
      for (const collapse::ClusterStatistics& one : run.statistics) {
        all[k].spread.push_back(*std::max_element(one.spread.begin(), one.spread.end()));
        all[k].modes.push_back(one.modes);
      }
      all[k].totals.add(run.totals);
      if (keeps_trajectory()) {
        outputs_.write(task_.names[k] + "/trajectory", set, run.trajectory.data());
      }
      write_statistics(set, task_.names[k], run.statistics);
      outputs_.write(task_.names[k] + "/log_likelihood", set, run.log_likelihood.data());
    }
  }

  void write_statistics(Index set, const std::string& scheme, const Statistics& statistics) {
    const Index c = task_.sets.clusters;
    std::vector<double> centre, distance, spread, modes;
    for (const collapse::ClusterStatistics& one : statistics) {
      centre.insert(centre.end(), one.centre.begin(), one.centre.end());
      spread.insert(spread.end(), one.spread.begin(), one.spread.end());
      modes.push_back(one.modes);
      if (!task_.emits("centre_distance")) continue;
      if (c == 2) {
        distance.push_back(one.least_distance());
      } else {
        distance.insert(distance.end(), one.distance.begin(), one.distance.end());
      }
    }
    outputs_.write(scheme + "/centre", set, centre.data());
    outputs_.write(scheme + "/centre_distance", set, distance.data());
    outputs_.write(scheme + "/spread", set, spread.data());
    outputs_.write(scheme + "/modes", set, modes.data());
  }

  const SimulationTask& task_;
  Checkpoint* checkpoint_;  // null: none
  PointPlan plan_;
  std::vector<Plans> plans_;  // by worker
  HeadOutputs outputs_;
  cli::Progress progress_;
};

void record(const SimulationTask& task, const std::vector<SchemeRuns>& runs,
            io::OutputBundle& bundle) {
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const collapse::SelfAttentionOptions& options = task.schemes[k];
    io::OutputBundle group = bundle.group(task.names[k]);
    group.attribute("attn_scheme", task.names[k]);
    group.attribute("attn_energy", task.energy());
    group.attribute("attn_scale", options.scale);
    group.attribute("attn_residual", std::int64_t{options.residual});
    group.attribute("attn_precision", std::string(task.sets.f64 ? "f64" : "f32"));
    const SchemeSummary& worst = runs[k].totals.worst;
    group.attribute("attn_status", status_name(worst.status));
    if (task.sets.share) {
      const std::string place = task.names[k] + "/";
      task.sets.share->rank({{place + "attn_status"}, {static_cast<double>(worst.status)}});
      task.sets.share->rank({{place + "attn_iterations"}, {static_cast<double>(worst.iterations)}});
    }
    const SchemeDescription& scheme = description_of(options.scheme);
    if (scheme.is_mixture()) group.attribute("attn_hybrid", options.hybrid);
    if (scheme.is_iterated()) {
      group.attribute("attn_iterations", static_cast<std::int64_t>(worst.iterations));
      if (!options.stopping.fixed()) {
        group.attribute("attn_tolerance", options.stopping.tolerance.value_or(usual_tolerance(
                                              task.sets.f64 ? sizeof(double) : sizeof(float))));
      }
    }
  }
}

}  // namespace

cli::Outcome run_simulation(const cli::Arguments& arguments, cli::Report& report) {
  const std::optional<io::InputBundle> input = open_points(arguments, report);
  SimulationTask task(arguments, input ? &*input : nullptr);
  std::optional<SectionShare> share = divide_sets(arguments, task.sets);
  task.sets.report_params(arguments, task.steps, task.emitted, report);
  if (input) warn_of_unused(arguments, *input, report);
  if (input && share) share->keep_unused(unused_options(arguments, *input));
  if (arguments.dry_run) {
    report_simulation_cost(arguments, task, report);
    return {};
  }
  if (task.sets.own_sets() == 0) return write_empty_shard(arguments, input, *share, report);
  task.plan(arguments);
  return run_with_restarts(arguments, report, "set", [&](Checkpoint* checkpoint) {
    CollapseOutput output = open_collapse_output(arguments, input, task.sets, task.emitted,
                                                 task.names, share ? &*share : nullptr);
    StopRequests::work_begins();
    const auto simulate = [&]<class T>(T) {
      return Simulation<T>(arguments, task, output.bundle, checkpoint, report).run(report);
    };
    std::vector<SchemeRuns> runs = task.sets.f64 ? simulate(double()) : simulate(float());
    record(task, runs, output.bundle);
    const SimulationFigures figures{task.sets.heading(task.steps),
                                    task.sets.clusters,
                                    task.sets.names(),
                                    task.merged,
                                    task.names,
                                    std::move(runs)};
    if (share) keep_notes(notes_of(figures), report, *share);
    cli::Outcome outcome = report_simulation(figures, report);
    outcome.commit = commit_of(output.take(report), report);
    return outcome;
  });
}

}  // namespace attn::tools
