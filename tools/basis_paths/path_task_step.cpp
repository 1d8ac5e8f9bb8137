// The options of basis-paths step.

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "basis_paths/path_task.hpp"

namespace attn::tools {

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"sgd", "adam", "si-sgd", "si-adam",
                                                 "si-sgd-printed"};
  return names;
}

std::string optimizer_name(Optimizer optimizer) {
  return optimizer_names()[static_cast<std::size_t>(optimizer)];
}

std::string state_name(Optimizer optimizer, const std::string& part) {
  std::string name = optimizer_name(optimizer);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + "_" + part;
}

std::vector<std::string> moment_parts(const StepOptions& step) {
  if (keeps_moments(step.optimizer)) return {"m", "v"};
  if (keeps_first_moment(step)) return {"m"};
  return {};
}

std::vector<std::string> state_names(const StepOptions& step) {
  std::vector<std::string> names;
  for (const std::string& part : moment_parts(step)) {
    names.push_back(state_name(step.optimizer, part));
  }
  if (keeps_moments(step.optimizer)) names.push_back(state_name(step.optimizer, "step"));
  return names;
}

StepOptions read_step_options(const cli::Arguments& arguments) {
  StepOptions step;
  const auto& names = optimizer_names();
  const auto at = std::find(names.begin(), names.end(), arguments.text("optimizer"));
  step.optimizer = static_cast<Optimizer>(at - names.begin());
  const auto require = [&](const char* option, bool with, const char* what) {
    if (!arguments.given(option) || with) return;
    throw Error(Failure::usage, fmt::format("--{} requires --optimizer {}", option, what));
  };
  for (const char* option : {"beta1", "beta2", "epsilon"}) {
    require(option, keeps_moments(step.optimizer), "adam or si-adam");
  }
  require("momentum", step.optimizer == Optimizer::sgd || step.optimizer == Optimizer::si_sgd,
          "sgd or si-sgd");
  require("weight-decay", step.optimizer != Optimizer::si_sgd_printed,
          "sgd, adam, si-sgd or si-adam");
  if (!arguments.given("rate")) throw Error(Failure::usage, "step requires --rate ETA");
  step.rate = arguments.number("rate").value();
  step.beta1 = arguments.number("beta1").value();
  step.beta2 = arguments.number("beta2").value();
  step.epsilon = arguments.number("epsilon").value();
  step.momentum = arguments.number("momentum").value();
  step.decay = arguments.number("weight-decay").value();
  step.min_ratio = arguments.number("min-ratio").value();
  step.clips = arguments.text("on-singular") == "clip";
  return step;
}

bool stops_at_singular(const cli::Arguments& arguments) {
  return arguments.text("on-singular") == "error";
}

void PathTask::take_step(const cli::Arguments& arguments) {
  step = read_step_options(arguments);
  stops = stops_at_singular(arguments);
  take("grad_wq");
  take("grad_wk");
  for (const std::string& moment : stored_moments(bundle, step)) take(moment);
}

std::vector<std::string> stored_moments(const io::InputBundle& bundle, StepOptions& step) {
  if (!keeps_moments(step.optimizer)) {
    const std::string momentum = state_name(step.optimizer, "m");
    if (!keeps_first_moment(step) || !bundle.has(momentum)) return {};
    return {momentum};
  }
  const std::string m = state_name(step.optimizer, "m");
  const std::string v = state_name(step.optimizer, "v");
  const std::string count = state_name(step.optimizer, "step");
  if (!bundle.has(m) && !bundle.has(v) && !bundle.has(count)) return {};
  const ArraySource dataset = bundle.dataset(count);
  require_path_type(dataset, true);
  if (!dataset.shape().empty()) {
    throw Error(Failure::input, shape_text(dataset) + ", expected one number, ()");
  }
  std::int64_t made = 0;
  dataset.read({}, {}, &made);
  if (made < 1 || made > (Index{1} << 60)) {
    throw Error(Failure::input, fmt::format("{} is {}, expected how many steps were made",
                                            dataset.address(), made));
  }
  step.number = made + 1;
  return {m, v};
}

}  // namespace attn::tools
