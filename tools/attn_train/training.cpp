#include "attn_train/training.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attn_train/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/words.hpp"
#include "common/costs/block_plan.hpp"
#include "parallel/ranks.hpp"
#include "system/stop_requests.hpp"
#include "train/path_start.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double most_steps = 1e9;
constexpr const char* smaller_rate = "a smaller schedule.rate, or optimizer.clip";

Index steps_of(const Recipe& recipe, Index batches) {
  if (recipe.given("run.steps") && recipe.given("run.epochs")) {
    throw recipe.refusal("run.steps", "and run.epochs are both given");
  }
  if (recipe.given("run.steps")) return recipe.integer("run.steps");
  const double steps = recipe.number("run.epochs") * static_cast<double>(batches);
  if (!(steps <= most_steps)) throw recipe.refusal("run.epochs", "makes more than 1e9 steps");
  return std::max<Index>(1, static_cast<Index>(std::llround(steps)));
}

// The largest number of all ranks.
std::int64_t largest_of_ranks(std::int64_t own) {
  Ranks* const ranks = Ranks::current();
  if (ranks == nullptr) return own;
  const std::vector<std::int64_t> numbers = gathered(*ranks, own);
  return *std::max_element(numbers.begin(), numbers.end());
}

// The error of a step that no longer computes with finite numbers.
Error diverged(Index step, const std::string& what) {
  return {Failure::numerical, fmt::format("step {}: {}", step, what), smaller_rate};
}

}  // namespace

template <class T>
struct Training<T>::Interval {
  Clock::time_point begin = Clock::now();
  double tokens = 0;
  double gradient_norm = 0;  // of the last step
  double rate = 0;

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
};

template <class T>
Training<T>::Training(const cli::Arguments& arguments, cli::Report& report, const Recipe& recipe,
                      Task<T>& task, RunFile& file, const EarlierRun* from)
    : arguments_(arguments),
      report_(report),
      recipe_(recipe),
      task_(task),
      file_(file),
      from_(from),
      steps_(steps_of(recipe, task.batches())),
      options_(optimizer_options(recipe)),
      schedule_(schedule_of(recipe)),
      in_paths_(layers_at("optimizer.paths")),
      working_bytes_(planned_bytes()),
      optimizer_(task.parameters(), options_, in_paths_, arguments.threads),
      weights_(task.parameters().size()) {
  if (schedule_.warm_up > steps_) {
    throw recipe.refusal("schedule.warm-up", fmt::format("is {}, the run has {}", schedule_.warm_up,
                                                         cli::counted(steps_, "step")));
  }
}

// The memory of the run besides the data. Throws Error(memory) if this exceeds the limit.
template <class T>
std::int64_t Training<T>::planned_bytes() const {
  const train::Parameters& parameters = task_.parameters();
  Index largest = 0;
  for (const train::Parameter& one : parameters.all()) largest = std::max(largest, one.size());
  // A tensor is first drawn in float64, and is copied into a checkpoint.
  const std::int64_t at_start = largest * static_cast<Index>(sizeof(double));
  const std::int64_t in_steps = largest * static_cast<Index>(sizeof(T)) +
                                task_.working_bytes(recipe_.flag("run.keep-inputs"));
  const std::int64_t bytes = parameters.size() * static_cast<Index>(sizeof(T)) +
                             train::WeightOptimizer<T>::bytes(parameters, options_, in_paths_) +
                             std::max(at_start, in_steps);
  require_memory("the run", bytes, arguments_.memory, "a smaller run.batch, or ");
  return bytes;
}

// The layers of the attentions that a recipe names. Throws for a name that the model lacks.
template <class T>
std::vector<train::PathLayer> Training<T>::layers_at(const std::string& key) const {
  std::vector<train::PathLayer> layers;
  for (const std::string& place : recipe_.words(key)) {
    const std::size_t before = layers.size();
    for (const AttentionGroup& group : task_.attentions()) {
      if (group.place != place) continue;
      layers.push_back(
          {group.name, group.projections[0], group.projections[1], group.heads->options().heads});
    }
    if (layers.size() == before) {
      throw recipe_.refusal(key, "names " + place + ", which the model of objective.kind = \"" +
                                     recipe_.text("objective.kind") + "\" lacks");
    }
  }
  return layers;
}

template <class T>
void Training<T>::start() {
  const auto seed = static_cast<std::uint64_t>(recipe_.integer("seed"));
  task_.parameters().initialise(seed, weights_.data());
  if (from_ != nullptr) from_->read(task_, weights_.data());
  const std::vector<train::PathLayer> layers = layers_at("optimizer.start-of");
  for (const char* const key : {"optimizer.start", "optimizer.rescale"}) {
    if (!layers.empty() || !recipe_.given(key)) continue;
    const std::string value = recipe_.text(key);
    if (value == "keep" || value == "none") continue;
    throw recipe_.refusal(key, "is " + value + ", but no attention is named to which it applies",
                          "name them in optimizer.start-of, or in optimizer.paths");
  }
  if (recipe_.text("optimizer.start") == "ones") {
    train::set_skeletons_to_one(layers, weights_.data());
  }
  const std::string rescale = recipe_.text("optimizer.rescale");
  if (rescale == "none") return;
  train::rescale_start(
      layers, rescale == "powers" ? train::StartFactors::powers : train::StartFactors::factors,
      seed, weights_.data());
}

// Weights that have grown beyond all bounds are no fault of the input.
template <class T>
template <class Compute>
auto Training<T>::guarded(const Compute& compute) const {
  try {
    return compute();
  } catch (const Error& error) {
    if (error.failure() != Failure::input && error.failure() != Failure::numerical) throw;
    throw diverged(progress_.step, error.what());
  }
}

template <class T>
void Training<T>::take_step(Interval& interval) {
  const Index number = progress_.step + 1;
  const Index batches = task_.batches();
  const auto seed = static_cast<std::uint64_t>(recipe_.integer("seed"));
  const StepNumber at = {number, {seed, progress_.step / batches}, progress_.step % batches};
  progress_.step = number;
  const StepFound<T> found = guarded([&] { return task_.differentiate(weights_.data(), at); });
  if (!std::isfinite(found.loss)) throw diverged(number, "the loss is not finite");
  interval.rate = train::rate_of(schedule_, number, steps_);
  const auto outcome = optimizer_.step(number, interval.rate, weights_.data(), found.gradients);
  task_.finish_step(found, weights_.data());
  interval.gradient_norm = outcome.gradient_norm;
  if (!std::isfinite(outcome.gradient_norm)) throw diverged(number, "a gradient is not finite");
  if (!in_paths_.empty()) {
    progress_.least_ratio = std::min(progress_.least_ratio, outcome.paths.least_ratio);
    progress_.largest_ratio = std::max(progress_.largest_ratio, outcome.paths.largest_ratio);
    if (!outcome.paths.singular.empty() && recipe_.text("optimizer.singular") == "stop") {
      const train::SingularPath& first = outcome.paths.singular.front();
      throw Error(Failure::numerical,
                  fmt::format("step {}: R is {:.3g} in {}, head {}, column {}", number, first.ratio,
                              in_paths_[first.layer].name, first.head, first.column),
                  "a smaller schedule.rate, or optimizer.singular = \"skip\"");
    }
  }
  progress_.loss += found.loss;
  progress_.targets += found.targets;
  interval.tokens += found.tokens;
}

template <class T>
Json Training<T>::header() const {
  Json line;
  line["schema"] = "attnkit-log/1";
  line["version"] = arguments_.version;
  line["recipe"] = recipe_.values();
  if (!file_.from().is_null()) line["from"] = file_.from();
  line["parameters"] = task_.parameters().size();
  line["steps"] = steps_;
  line["steps_per_epoch"] = task_.batches();
  return line;
}

template <class T>
void Training<T>::write_line(RunLog& log, Interval& interval) {
  const bool last = progress_.step == steps_;
  const bool evaluates = last || progress_.step % recipe_.integer("run.evaluate-every") == 0;
  if (!evaluates && progress_.step % recipe_.integer("run.log-every") != 0) return;
  Json line;
  line["step"] = progress_.step;
  line["epoch"] = static_cast<double>(progress_.step) / static_cast<double>(task_.batches());
  line["loss"] = progress_.targets > 0 ? Json(progress_.loss / progress_.targets) : Json();
  if (progress_.targets > 0) warn_of_loss(progress_.loss / progress_.targets);
  line["rate"] = interval.rate;
  line["gradient_norm"] = interval.gradient_norm;
  if (!in_paths_.empty()) {
    line["least_ratio"] = progress_.least_ratio;
    line["largest_ratio"] = progress_.largest_ratio;
  }
  const double seconds = interval.seconds();
  line["tokens_per_s"] = interval.tokens / seconds;
  line["seconds"] = seconds;
  if (evaluates) {
    require_finite();
    const auto evaluate = [&](Split split) {
      const auto found = guarded([&] { return task_.evaluate(weights_.data(), split, last); });
      if (!found) return;
      line[name_of(split)] = *found;
      metrics_[name_of(split)] = *found;
    };
    evaluate(Split::valid);
    if (last) evaluate(Split::test);
    line["attention"] = guarded([&] { return task_.attention_figures(weights_.data()); });
  }
  log.add(line);
  progress_ = {.step = progress_.step};
  interval = {};
}

// Warns once of a loss that a smaller learning rate would often have kept lower: much larger than
// that of equal probabilities for all outcomes, or ten times as large as before.
template <class T>
void Training<T>::warn_of_loss(double loss) {
  if (warned_of_loss_) return;
  const Index outcomes = task_.data_sizes().outcomes;
  const bool has_penalty = recipe_.number("structured.penalty") > 0;
  const double of_guesses = std::log(static_cast<double>(outcomes));
  const double least = std::exchange(least_loss_, std::min(least_loss_, loss));
  constexpr double smallest = 0.1;  // a smaller loss may rise tenfold by chance
  std::string what;
  if (outcomes > 0 && !has_penalty && loss > of_guesses + 1) {
    what =
        fmt::format("{:.3g}, where guesses among {} would have {:.3g}", loss, outcomes, of_guesses);
  } else if (loss > std::max(10 * least, smallest)) {
    what = fmt::format("{:.3g}, after {:.3g}", loss, least);
  } else {
    return;
  }
  warned_of_loss_ = true;
  report_.warn(
      fmt::format("the loss at step {} is {}: a smaller schedule.rate or optimizer.clip "
                  "may help",
                  progress_.step, what));
}

// Weights beyond all bounds are neither evaluated nor stored.
template <class T>
void Training<T>::require_finite() const {
  const bool finite =
      std::all_of(weights_.begin(), weights_.end(), [](T weight) { return std::isfinite(weight); });
  if (!finite) throw diverged(progress_.step, "a weight is not finite");
}

// When this returns, all ranks have looked at the file, and rank 0 can replace it.
template <class T>
void Training<T>::require_same_start() const {
  const Index steps = file_.steps_done().value_or(-1);
  const Index most = largest_of_ranks(steps);
  if (-largest_of_ranks(-steps) == most) return;
  throw Error(Failure::input, file_.path() + " is not the same run for all ranks",
              "run them on a file system that all of them see");
}

template <class T>
void Training<T>::save() {
  require_finite();
  if (arguments_.drops_output) return;
  const Ranks::Use alone(nullptr);
  file_.save(
      task_, weights_.data(), optimizer_, progress_,
      {.inputs = recipe_.flag("run.keep-inputs"), .source_weights = progress_.step == steps_});
}

template <class T>
bool Training<T>::run() {
  task_.reserve();
  require_same_start();
  const bool resumes = file_.steps_done().has_value();
  if (resumes) {
    progress_ = file_.load(task_, weights_.data(), optimizer_);
  } else {
    start();
  }
  const std::string log_file = arguments_.drops_output ? "" : arguments_.text("log");
  RunLog log(log_file, header(), file_.steps_done(), arguments_.force);
  if (resumes) {
    report_.note(fmt::format("{} goes on from step {}", file_.path(), progress_.step));
  } else {
    report_.note(data_words(task_.data_sizes()));
  }
  StopRequests::work_begins();
  // Before the first line of the log, so that a run that is killed at once can resume.
  if (!resumes) save();
  log.begin();
  cli::Progress shown(arguments_, "training", static_cast<double>(steps_ - progress_.step),
                      "steps");
  Interval interval;
  const Index every = recipe_.integer("run.checkpoint-every");
  while (progress_.step < steps_) {
    take_step(interval);
    write_line(log, interval);
    const bool stops = largest_of_ranks(StopRequests::asked() ? 1 : 0) == 1;
    if (stops || progress_.step % every == 0 || progress_.step == steps_) save();
    shown.advance(1);
    if (stops && progress_.step < steps_) return false;
  }
  return true;
}

template class Training<float>;
template class Training<double>;

}  // namespace attn::tools
