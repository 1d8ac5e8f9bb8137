#include "basis_paths/network_task.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {
namespace {

// Bytes of a few networks of this size can still be counted.
constexpr Index most_network_weights = Index{1} << 54;

bool is_index_of_network(const std::string& name) {
  return name == "skeleton_in" || name == "skeleton_out" || name == "basis_path";
}

// Whether the dataset may have fewer leading axes than the weights, and is then shared.
bool may_stretch_to_networks(const std::string& name) {
  return name == "scale" || is_index_of_network(name);
}

}  // namespace

ReluLayers layers_of(const std::vector<Index>& sizes, const std::string& what, Failure failure) {
  Index weights = 0;
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    if (sizes[l] < 1) {
      throw Error(failure,
                  fmt::format("{} has a layer of {} nodes, expected at least one", what, sizes[l]));
    }
    Index more = 0;
    if (l > 0 && (__builtin_mul_overflow(sizes[l - 1], sizes[l], &more) ||
                  more > most_network_weights - weights)) {
      throw Error(failure, what + " has more weights than can be addressed");
    }
    weights += more;
  }
  return ReluLayers(sizes);
}

void require_network_options(const cli::Arguments& arguments) {
  for (const char* option : {"across-heads", "paths", "length"}) {
    if (!arguments.declared(option) || !arguments.given(option)) continue;
    throw Error(Failure::usage, fmt::format("--{} is not for --network relu", option));
  }
  if (arguments.verb != "step") return;
  if (arguments.text("optimizer") == "si-sgd-printed") {
    throw Error(Failure::usage, "--optimizer si-sgd-printed is not for --network relu");
  }
}

bool NetworkTask::suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  return bundle.is_dataset(arguments.verb == "reconstruct" ? "basis_value" : "w1");
}

NetworkTask::NetworkTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)), verb(arguments.verb) {
  require_network_options(arguments);
  verb == "reconstruct" ? take_sizes() : take_weights();
  if (verb == "step") step = read_step_options(arguments);
  if (has_skeleton()) take_skeleton(arguments);
  if (verb == "reconstruct") take("skeleton_weight");
  if (verb == "check" && !arguments.given("skeleton")) {
    if (bundle.has("path")) {
      take_path_list();
    } else if (bundle.has("basis_path")) {
      take("basis_path");
    }
  }
  if (verb == "step") {
    stops = stops_at_singular(arguments);
    for (const std::string& moment : stored_moments(bundle, step)) take(moment);
    for (const std::string& name : weights_names("grad_w")) take(name);
  }
  if (verb == "rescale") {
    take("scale");
    if (bundle.has("grad_w1")) {
      for (const std::string& name : weights_names("grad_w")) take(name);
    }
    for (const char* moment : {"sgd_m", "adam_m", "adam_v"}) {
      if (bundle.has(moment)) take(moment);
    }
  }
  f64 = arguments.f64.value_or(input.any_float64);
}

std::string NetworkTask::weights_name(Index layer, const std::string& prefix) {
  return prefix + std::to_string(layer);
}

std::vector<std::string> NetworkTask::weights_names(const std::string& prefix) const {
  std::vector<std::string> names;
  for (Index l = 1; l <= layers().count(); ++l) names.push_back(weights_name(l, prefix));
  return names;
}

std::vector<Index> NetworkTask::axes() const {
  std::vector<Index> axes(input.leading.begin(), input.leading.end());
  axes.insert(axes.end(), layers().sizes().begin(), layers().sizes().end());
  return axes;
}

std::string NetworkTask::shape_words() const { return times(axes()); }

void NetworkTask::take_weights() {
  std::vector<ArraySource> found;
  std::vector<Index> sizes;
  for (Index l = 1; l == 1 || bundle.has(weights_name(l)); ++l) {
    found.push_back(bundle.dataset(weights_name(l)));
    const ArraySource& dataset = found.back();
    require_path_type(dataset, false);
    const Shape& shape = dataset.shape();
    if (l == 1) {
      if (shape.size() < 2) {
        throw Error(Failure::input, shape_text(dataset) + ", expected (..., n0, n1)");
      }
      input.leading = leading_axes(shape, 2);
      input.problems = element_count(input.leading);
      sizes.push_back(shape[shape.size() - 2]);
    }
    const Shape before = join(input.leading, {sizes.back()});
    if (shape.size() != before.size() + 1 || leading_axes(shape, 1) != before) {
      throw Error(Failure::input, fmt::format("{}, expected ({}, n{})", shape_text(dataset),
                                              fmt::join(before, ", "), l));
    }
    sizes.push_back(shape.back());
  }
  const std::string after_gap = weights_name(static_cast<Index>(found.size()) + 2);
  if (bundle.has(after_gap)) {
    throw Error(Failure::input, fmt::format("{} has {}, expected also w{}", bundle.description(),
                                            after_gap, found.size() + 1));
  }
  layers_ = layers_of(sizes, found.front().address(), Failure::input);
  for (const ArraySource& dataset : found) add(dataset, own_shape(dataset.name()));
}

void NetworkTask::take_sizes() {
  const ArraySource dataset = bundle.dataset("layer_sizes");
  require_path_type(dataset, true);
  if (dataset.shape().size() != 1 || dataset.shape()[0] < 2 || dataset.shape()[0] > (1 << 20)) {
    throw Error(Failure::input, shape_text(dataset) + ", expected one size for each layer");
  }
  std::vector<Index> sizes(static_cast<std::size_t>(dataset.shape()[0]));
  dataset.read({0}, dataset.shape(), sizes.data());
  layers_ = layers_of(sizes, dataset.address(), Failure::input);
  const ArraySource values = bundle.dataset("basis_value");
  require_path_type(values, false);
  if (values.shape().empty() || values.shape().back() != layers().rank()) {
    throw Error(Failure::input,
                fmt::format("{}, expected (..., {}): weights less hidden nodes of layer_sizes",
                            shape_text(values), layers().rank()));
  }
  input.leading = leading_axes(values.shape(), 1);
  input.problems = element_count(input.leading);
  add(dataset, dataset.shape());
  add(values, own_shape("basis_value"));
}

void NetworkTask::take_skeleton(const cli::Arguments& arguments) {
  const bool stored = bundle.has("skeleton_in");
  if (stored != bundle.has("skeleton_out")) {
    throw Error(Failure::input,
                fmt::format("{} has only skeleton_{}, expected also skeleton_{}",
                            bundle.description(), stored ? "in" : "out", stored ? "out" : "in"));
  }
  const bool chooses = arguments.declared("skeleton") && arguments.given("skeleton");
  if (verb == "reconstruct" || (stored && (verb == "step" || !chooses))) {
    rule = SkeletonRule::stored;
    take("skeleton_in");
    take("skeleton_out");
    return;
  }
  if (arguments.text("skeleton") == "largest") rule = SkeletonRule::largest;
  if (verb != "check") refuse_moments(bundle, stored, arguments);
}

Shape NetworkTask::own_shape(const std::string& name) const {
  if (name == "basis_value" || name == "si_sgd_m" || name == "si_adam_m" || name == "si_adam_v") {
    return {layers().rank()};
  }
  if (name == "sgd_m" || name == "adam_m" || name == "adam_v") return {layers().weights()};
  if (name == "basis_path") return {layers().rank(), layers().count() + 1};
  for (Index l = 1; l <= layers().count(); ++l) {
    if (name != weights_name(l) && name != weights_name(l, "grad_w")) continue;
    return {layers().size(l - 1), layers().size(l)};
  }
  return {layers().hidden()};
}

void NetworkTask::add(const ArraySource& dataset, const Shape& own) {
  const Shape leading = leading_axes(dataset.shape(), own.size());
  if (is_floating(dataset.dtype())) input.any_float64 |= dataset.dtype() == DType::f64;
  operands_.push_back({dataset, leading, own.size() > 1 ? own.front() : 1, own.back(),
                       LeadingMap(input.leading, leading, false, dataset.address())});
}

void NetworkTask::take(const std::string& name) {
  const ArraySource dataset = bundle.dataset(name);
  require_path_type(dataset, is_index_of_network(name));
  const Shape own = own_shape(name);
  const Shape& shape = dataset.shape();
  const bool fits =
      shape.size() >= own.size() && join(leading_axes(shape, own.size()), own) == shape &&
      (may_stretch_to_networks(name) || leading_axes(shape, own.size()) == input.leading);
  if (!fits) {
    throw Error(Failure::input,
                shape_text(dataset) + ", expected " + to_string(join(input.leading, own)));
  }
  add(dataset, own);
}

void NetworkTask::take_path_list() {
  const ArraySource dataset = bundle.dataset("path");
  require_path_type(dataset, true);
  const Shape& shape = dataset.shape();
  const Index nodes = layers().count() + 1;
  if (shape.size() < 2 || shape.back() != nodes) {
    throw Error(Failure::input, fmt::format("{}, expected (..., n, {}): one node of each layer",
                                            shape_text(dataset), nodes));
  }
  add(dataset, {shape[shape.size() - 2], nodes});
}

void NetworkTask::report_params(cli::Report& report) const {
  auto& params = report.params();
  params["network"] = "relu";
  params["precision"] = f64 ? "f64" : "f32";
  if (has_skeleton()) params["skeleton"] = rule_name(rule);
}

std::vector<ArraySource> NetworkTask::datasets() const {
  std::vector<ArraySource> all;
  for (const Operand& used : operands_) all.push_back(used.dataset);
  return all;
}

const Operand* NetworkTask::operand(const std::string& name) const {
  const auto found = std::find_if(operands_.begin(), operands_.end(),
                                  [&](const Operand& used) { return used.dataset.name() == name; });
  return found == operands_.end() ? nullptr : &*found;
}

RunEffect NetworkTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  const std::vector<std::string> weights = weights_names();
  std::set<std::string> of_weights(weights.begin(), weights.end());
  of_weights.insert({"skeleton_in", "skeleton_out"});
  if (verb == "identify" || verb == "values" || (verb == "step" && has_skeleton())) {
    effect.replaced = {"skeleton_in", "skeleton_out"};
    if (rule == SkeletonRule::stored) effect.unchanged = effect.replaced;
  }
  if (verb == "identify" || verb == "values") effect.replaced.insert("layer_sizes");
  if (verb == "identify") effect.results["basis_path"] = {"skeleton_in", "skeleton_out"};
  if (verb == "values") {
    effect.results["basis_value"] = of_weights;
    effect.results["skeleton_weight"] = of_weights;
  }
  if (verb == "reconstruct" || verb == "rescale" || verb == "step") {
    effect.replaced.insert(weights.begin(), weights.end());
  }
  if (verb == "reconstruct") effect.still_true = {"basis_value", "skeleton_weight"};
  if (verb == "step") {
    // New weights have other gradients.
    for (const std::string& name : weights_names("grad_w")) effect.replaced.insert(name);
    for (const std::string& name : state_names(step)) effect.replaced.insert(name);
  }
  if (verb == "rescale") {
    for (const std::string& name : weights_names("grad_w")) {
      if (operand(name) != nullptr) effect.replaced.insert(name);
    }
    for (const char* moment : {"sgd_m", "adam_m", "adam_v"}) {
      if (operand(moment) != nullptr) effect.replaced.insert(moment);
    }
    effect.still_true = {"basis_value"};
  }
  return effect;
}

}  // namespace attn::tools
