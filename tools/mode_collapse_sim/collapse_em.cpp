#include "mode_collapse_sim/collapse_em.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/progress.hpp"
#include "common/frame/bundles.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/runs/restart.hpp"
#include "head/operand.hpp"
#include "mode_collapse_sim/collapse_output.hpp"
#include "reports/collapse_report.hpp"
#include "system/stop_requests.hpp"

namespace attn::tools {
namespace {

using collapse::Priors;

// The result of one set.
struct EmRun {
  Index steps = 0;  // done so far
  std::vector<double> log_likelihood;
  std::vector<double> variance;          // of all components, or the least
  std::vector<double> largest_variance;  // if each has its own
  // With a checkpoint; otherwise written as they are made.
  std::vector<double> centre;
  std::vector<double> prior;
  std::vector<double> own_variance;
  bool floored = false;
  Index empty = 0;
  double dnas_error = 0;
};

template <class Archive>
void archive(Archive& with, EmRun& run) {
  archive(with, run.steps);
  for (std::vector<double>* const numbers :
       {&run.log_likelihood, &run.variance, &run.largest_variance, &run.centre, &run.prior,
        &run.own_variance}) {
    archive(with, *numbers);
  }
  archive(with, run.floored);
  archive(with, run.empty);
  archive(with, run.dnas_error);
}

// A set in progress.
struct EmState {
  EmRun run;
  EmMixture now;  // relative to the origin
};

template <class Archive>
void archive(Archive& with, EmState& state) {
  archive(with, state.run);
  archive(with, state.now.centre);
  archive(with, state.now.log_prior);
  archive(with, state.now.variance);
}

void shift(double* rows, Index count, const std::vector<double>& by, double sign) {
  for (Index i = 0; i < count; ++i) {
    for (const double axis : by) *rows++ += sign * axis;
  }
}

// The mean along each axis on which it can be subtracted from points and centres without rounding,
// since all are between half and twice the mean; 0 along the others. Centres far from the origin
// have enough digits to climb only relative to this origin.
std::vector<double> exact_origin(MatrixView<const double> points,
                                 MatrixView<const double> centres) {
  std::vector<double> origin;
  for (Index c = 0; c < points.cols; ++c) {
    double mean = 0;
    for (Index j = 0; j < points.rows; ++j) mean += points(j, c) / static_cast<double>(points.rows);
    const auto near = [&](MatrixView<const double> rows) {
      for (Index i = 0; i < rows.rows; ++i) {
        const double ratio = rows(i, c) / mean;
        if (!(ratio > 0.51 && ratio < 1.99)) return false;
      }
      return true;
    };
    origin.push_back(near(points) && near(centres) ? mean : 0);
  }
  return origin;
}

class Fit {
 public:
  Fit(const cli::Arguments& arguments, const EmTask& task, io::OutputBundle& bundle,
      Checkpoint* checkpoint, cli::Report& report)
      : task_(task),
        checkpoint_(checkpoint),
        plan_(task.plan(arguments)),
        outputs_(bundle, task.sets.leading, report, task.sets.share.get(),
                 task.sets.drawn() ? "seed" : "set"),
        progress_(arguments, "em", static_cast<double>(task.sets.own_sets() * task.steps),
                  "steps") {
    for (int worker = 0; worker < plan_.at_once(); ++worker) {
      plans_.push_back(task.steps_plan(plan_.inside()));
    }
    write_drawn_points<double>(task.sets, task.emitted, bundle, outputs_, report);
    const Index times = task.steps + 1;
    create("log_likelihood", {times}, {"step"});
    if (task.own_variances()) {
      create("variance", {times, task.components}, {"step", "component"});
    } else {
      create("variance", {times}, {"step"});
    }
    create("centre", {times, task.components, task.sets.dimension},
           {"step", "component", "dimension"});
    create("prior", {times, task.components}, {"step", "component"});
  }

  EmRuns run(cli::Report& report) {
    EmRuns all;
    for_each_set<EmRun>(
        task_.sets, plan_, report,
        [&](Index set, int worker) {
          return run_set(set, plans_[static_cast<std::size_t>(worker)]);
        },
        [&](Index set, const EmRun& found) { keep(set, found, all); }, checkpoint_);
    return all;
  }

 private:
  void create(const std::string& name, const Shape& shape, const std::vector<std::string>& labels) {
    if (task_.emits(name)) outputs_.create("em/" + name, DType::f64, shape, labels);
  }

  EmRun run_set(Index set, collapse::MixturePlan& plan) {
    const PointSets& sets = task_.sets;
    std::vector<double> points(static_cast<std::size_t>(sets.points * sets.dimension));
    sets.read(set, points.data());
    EmState state;
    EmMixture& now = state.now;
    now = task_.first(set, points.data());
    // Priors of dnas depend on the position of the centres.
    std::vector<double> origin(static_cast<std::size_t>(sets.dimension), 0.0);
    if (task_.options.priors == Priors::dnas) {
      plan.set_dnas_priors(now.views());
    } else {
      origin = exact_origin({points.data(), sets.points, sets.dimension},
                            {now.centre.data(), task_.components, sets.dimension});
    }
    shift(points.data(), sets.points, origin, -1);
    shift(now.centre.data(), task_.components, origin, -1);
    with_states(checkpoint_, state, [&](const std::function<void()>& keep_state) {
      run_steps(set, points, origin, plan, state, keep_state);
    });
    return std::move(state.run);
  }

  // Runs the remaining steps.
  void run_steps(Index set, const std::vector<double>& numbers, const std::vector<double>& origin,
                 collapse::MixturePlan& plan, EmState& state,
                 const std::function<void()>& keep_state) {
    const PointSets& sets = task_.sets;
    const TensorView<const double> points(numbers.data(), {sets.points, sets.dimension});
    EmRun& run = state.run;
    EmMixture& now = state.now;
    EmMixture next = now;
    // A step that was stopped may already have recorded figures.
    const auto done = static_cast<std::size_t>(run.steps);
    run.variance.resize(done);
    run.largest_variance.resize(task_.own_variances() ? done : 0);
    run.log_likelihood.resize(done);
    run.centre.resize(keeps("centre") ? done * now.centre.size() : 0);
    const auto by_component = done * now.log_prior.size();
    run.prior.resize(keeps("prior") ? by_component : 0);
    run.own_variance.resize(keeps_variances() ? by_component : 0);
    for (;;) {
      const Index step = run.steps;
      const auto [least, largest] = std::minmax_element(now.variance.begin(), now.variance.end());
      run.variance.push_back(*least);
      if (task_.own_variances()) run.largest_variance.push_back(*largest);
      show_mixture(set, step, now, origin, run);
      const auto place = [&] { return fmt::format("{}, step {}", sets.place(set), step + 1); };
      naming(place, [&] {
        if (step == task_.steps) {
          run.log_likelihood.push_back(plan.log_likelihood(points, now.views()).front());
          return;
        }
        const collapse::EmStep found = plan.step(points, now.views(), next.views()).front();
        run.log_likelihood.push_back(found.log_likelihood);
        run.floored = run.floored || found.at_floor;
        run.empty = std::max(run.empty, found.empty);
        if (step == 0 && task_.options.priors == Priors::dnas) {
          run.dnas_error = dnas_error(plan, points, now, next);
        }
      });
      if (step == task_.steps) return;
      std::swap(now, next);
      ++run.steps;
      progress_.advance(1);
      keep_state();
    }
  }

  // The difference between the step from `now` to `next` and dnas, in units of its error bound.
  static double dnas_error(collapse::MixturePlan& plan, const TensorView<const double>& points,
                           EmMixture& now, const EmMixture& next) {
    std::vector<double> centres(now.centre.size());
    const double limit =
        plan.dnas_centres(points, now.views(), {centres.data(), now.views().centre.shape}).front();
    double error = 0;
    double largest = 0;
    for (Index k = 0; k < element_count(points.shape); ++k) {
      largest = std::max(largest, std::abs(points.data[k]));
    }
    for (std::size_t k = 0; k < centres.size(); ++k) {
      const double off = std::abs(centres[k] - next.centre[k]);
      if (!(off <= error)) error = off;
    }
    return largest > 0 ? error / (largest * limit) : error;
  }

  bool keeps(const std::string& name) const { return checkpoint_ != nullptr && task_.emits(name); }
  bool keeps_variances() const { return task_.own_variances() && keeps("variance"); }

  void show_mixture(Index set, Index step, const EmMixture& mixture,
                    const std::vector<double>& origin, EmRun& run) {
    const Shape at = outputs_.position(set);
    const Index m = task_.components;
    if (task_.emits("centre")) {
      std::vector<double> centre = mixture.centre;
      shift(centre.data(), m, origin, 1);
      if (keeps("centre")) {
        run.centre.insert(run.centre.end(), centre.begin(), centre.end());
      } else {
        outputs_.dataset("em/centre")
            .write(join(at, {step, 0, 0}), join(Shape(at.size() + 1, 1), {m, task_.sets.dimension}),
                   centre.data());
      }
    }
    if (task_.emits("prior")) {
      std::vector<double> prior;
      for (const double log : mixture.log_prior) prior.push_back(std::exp(log));
      show_by_component("prior", at, step, prior.data(), m, run.prior);
    }
    if (task_.own_variances() && task_.emits("variance")) {
      show_by_component("variance", at, step, mixture.variance.data(), m, run.own_variance);
    }
  }

  void show_by_component(const std::string& name, const Shape& at, Index step,
                         const double* numbers, Index count, std::vector<double>& kept) {
    if (keeps(name)) {
      kept.insert(kept.end(), numbers, numbers + count);
    } else {
      outputs_.dataset("em/" + name)
          .write(join(at, {step, 0}), join(Shape(at.size() + 1, 1), {count}), numbers);
    }
  }

  void keep(Index set, const EmRun& run, EmRuns& all) {
    if (keeps("centre")) outputs_.write("em/centre", set, run.centre.data());
    if (keeps("prior")) outputs_.write("em/prior", set, run.prior.data());
    outputs_.write("em/log_likelihood", set, run.log_likelihood.data());
    if (keeps_variances()) outputs_.write("em/variance", set, run.own_variance.data());
    if (!task_.own_variances()) outputs_.write("em/variance", set, run.variance.data());
    all.log_likelihood.insert(all.log_likelihood.end(), run.log_likelihood.begin(),
                              run.log_likelihood.end());
    all.variance.insert(all.variance.end(), run.variance.begin(), run.variance.end());
    all.largest_variance.insert(all.largest_variance.end(), run.largest_variance.begin(),
                                run.largest_variance.end());
    all.add(run.floored ? 1 : 0, run.empty, run.dnas_error);
  }

  const EmTask& task_;
  Checkpoint* checkpoint_;  // null: none
  PointPlan plan_;
  std::vector<collapse::MixturePlan> plans_;  // by worker
  HeadOutputs outputs_;
  cli::Progress progress_;
};

void record(const EmTask& task, io::OutputBundle& bundle) {
  io::OutputBundle group = bundle.group("em");
  group.attribute("attn_priors", task.priors());
  group.attribute("attn_estimates_variance", std::int64_t{task.options.estimates_variance});
  if (task.own_variances()) group.attribute("attn_own_variances", std::int64_t{1});
  group.attribute("attn_precision", std::string("f64"));
}

}  // namespace

cli::Outcome run_em(const cli::Arguments& arguments, cli::Report& report) {
  const std::optional<io::InputBundle> input = open_points(arguments, report);
  EmTask task(arguments, input ? &*input : nullptr);
  std::optional<SectionShare> share = divide_sets(arguments, task.sets);
  task.sets.report_params(arguments, task.steps, task.emitted, report);
  if (task.stored) report_input(report, *task.stored);
  if (input) warn_of_unused(arguments, *input, report);
  if (input && share) share->keep_unused(unused_options(arguments, *input));
  if (arguments.dry_run) {
    report_em_cost(arguments, task, report);
    return {};
  }
  if (task.sets.own_sets() == 0) return write_empty_shard(arguments, input, *share, report);
  task.plan(arguments);
  return run_with_restarts(arguments, report, "set", [&](Checkpoint* checkpoint) {
    CollapseOutput output = open_collapse_output(arguments, input, task.sets, task.emitted, {"em"},
                                                 share ? &*share : nullptr);
    StopRequests::work_begins();
    EmRuns runs = Fit(arguments, task, output.bundle, checkpoint, report).run(report);
    record(task, output.bundle);
    const EmFigures figures{task.sets.heading(task.steps), task.components, task.priors(),
                            task.options.priors != Priors::dnas, std::move(runs)};
    if (share) keep_notes(notes_of(figures), report, *share);
    cli::Outcome outcome = report_em(figures, report);
    outcome.commit = commit_of(output.take(report), report);
    return outcome;
  });
}

}  // namespace attn::tools
