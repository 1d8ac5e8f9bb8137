#include "tensor_gen/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "common/options/cluster_options.hpp"
#include "tensor/random.hpp"

namespace attn::tools {
namespace {

[[noreturn]] void usage(const std::string& message, std::string hint = {}) {
  throw Error(Failure::usage, message, std::move(hint));
}

Planned parse_word(const std::string& word, DType type) {
  const std::size_t equals = word.find('=');
  const std::string hint = "name a dataset and its axes, as in q=8x2048x64";
  if (equals == std::string::npos || equals == 0) {
    usage("expected NAME=SHAPE, got " + word, hint);
  }
  Planned planned;
  planned.name = word.substr(0, equals);
  planned.type = type;
  if (planned.name.find('/') != std::string::npos || planned.name == ".") {
    usage(planned.name + " cannot be the name of a dataset");
  }
  const std::vector<std::string> lengths = cli::split(word.substr(equals + 1), 'x');
  if (lengths.size() > Shape::most_axes) {
    usage(fmt::format("{} has {} axes, at most {} can be stored", planned.name, lengths.size(),
                      Shape::most_axes));
  }
  for (const std::string& item : lengths) {
    const std::optional<Index> axis = cli::to_integer(item);
    if (!axis || *axis < 0) usage("expected NAME=SHAPE, got " + word, hint);
    planned.shape.push_back(*axis);
  }
  Index bytes = 0;
  const bool too_large = [&] {
    try {
      return __builtin_mul_overflow(element_count(planned.shape), Index{8}, &bytes);
    } catch (const Error&) {
      return true;
    }
  }();
  if (too_large) usage(planned.name + " has too many elements");
  return planned;
}

// The labels of the axes of the project's dataset names.
std::vector<std::string> axis_labels(const std::string& name, std::size_t rank, bool points) {
  std::vector<std::string> last;
  if (points) {
    last = {"point", "dimension"};
  } else if (name == "q") {
    last = {"query", "dimension"};
  } else if (name == "k" || name == "v") {
    last = {"key", "dimension"};
  } else if (name == "scores" || name == "weights" || name == "bias" || name == "cost") {
    last = {"query", "key"};
  }
  if (last.empty() || rank < last.size()) return {};
  std::vector<std::string> labels(rank - last.size());
  labels.insert(labels.end(), last.begin(), last.end());
  return labels;
}

}  // namespace

Recipe::Recipe(const cli::Arguments& arguments) : seed_(arguments.seed) {
  if (arguments.verb == "normal") {
    kind_ = Kind::normal;
    shift_ = *arguments.number("mean");
    factor_ = *arguments.number("std");
    by_fan_in_ = arguments.flag("fan-in");
  } else if (arguments.verb == "uniform") {
    kind_ = Kind::uniform;
    shift_ = *arguments.number("low");
    factor_ = *arguments.number("high") - shift_;
    if (!(factor_ > 0)) {
      usage(fmt::format("--low is {}, which is not below --high {}", shift_,
                        *arguments.number("high")));
    }
  } else {
    kind_ = arguments.verb == "clusters" ? Kind::clusters : Kind::mixture;
    take_points(arguments);
  }
  plan_datasets(arguments.words(), arguments.text("dtype") == "f64" ? DType::f64 : DType::f32);
}

void Recipe::take_points(const cli::Arguments& arguments) {
  clusters_ = read_clusters(arguments);
  if (kind_ == Kind::clusters) {
    count_ends_ = read_count_ends(arguments, *clusters_);
    return;
  }
  const std::size_t count = clusters_->centres.size();
  std::vector<double> weights = arguments.numbers("weights");
  if (weights.empty()) weights.assign(count, 1.0);
  require_per_cluster(weights.size(), "weights", *clusters_);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum)) {
    usage(fmt::format("--weights add up to {}, expected a positive number", sum));
  }
  double running = 0;
  for (std::size_t k = 0; k < count; ++k) {
    running += weights[k];
    weight_ends_.push_back(running / sum);
    if (weights[k] > 0) last_component_ = static_cast<Index>(k);
  }
}

void Recipe::require_points(const Planned& planned) const {
  const Shape& shape = planned.shape;
  if (shape.size() < 2) {
    usage(fmt::format("{} has the shape {}, expected points and coordinates", planned.name,
                      to_string(shape)));
  }
  const Index dimension = clusters_->dimension;
  if (shape.back() != dimension) {
    usage(fmt::format("the last axis of {} is {}, --centres has {} coordinates", planned.name,
                      shape.back(), dimension));
  }
  if (kind_ == Kind::clusters && shape[shape.size() - 2] != count_ends_.back()) {
    usage(fmt::format("{} has {} points, --counts add up to {}", planned.name,
                      shape[shape.size() - 2], count_ends_.back()));
  }
}

void Recipe::plan_datasets(const std::vector<std::string>& words, DType type) {
  if (words.empty()) usage("expected NAME=SHAPE..., got nothing");
  const bool points = kind_ == Kind::clusters || kind_ == Kind::mixture;
  for (const std::string& word : words) {
    Planned planned = parse_word(word, type);
    planned.labels = axis_labels(planned.name, planned.shape.size(), points);
    plan_.push_back(planned);
    if (!points) continue;
    require_points(planned);
    Planned label;
    label.name = words.size() == 1 ? "label" : planned.name + "_label";
    label.shape = leading_axes(planned.shape, 1);
    label.type = DType::i64;
    label.labels = {planned.labels.begin(), planned.labels.end() - 1};
    label.is_label = true;
    label.points_name = planned.name;
    plan_.push_back(std::move(label));
  }
  std::set<std::string> names;
  for (const Planned& planned : plan_) {
    if (!names.insert(planned.name).second) usage("two datasets would be called " + planned.name);
  }
}

Index Recipe::component(double fraction) const {
  const auto found = std::upper_bound(weight_ends_.begin(), weight_ends_.end(), fraction);
  // Rounding may leave the last sum below 1.
  return std::min<Index>(found - weight_ends_.begin(), last_component_);
}

void Recipe::labels(const Planned& planned, Index first, Index count, std::int64_t* out) const {
  if (kind_ == Kind::clusters) {
    const Index points = planned.shape.back();
    for (Index k = 0; k < count; ++k) out[k] = cluster_of(count_ends_, (first + k) % points);
    return;
  }
  const RandomStream stream(seed_, planned.points_name + "/component");
  std::vector<double> fractions(static_cast<std::size_t>(count));
  stream.uniform(first, count, fractions.data());
  for (Index k = 0; k < count; ++k) out[k] = component(fractions[static_cast<std::size_t>(k)]);
}

void Recipe::points(const Planned& planned, Index first, Index count, double* out) const {
  const Index dimension = planned.shape.back();
  const Index first_point = first / dimension;
  const Index points = (first + count - 1) / dimension + 1 - first_point;
  Planned label;
  label.shape = leading_axes(planned.shape, 1);
  label.points_name = planned.name;
  std::vector<std::int64_t> clusters(static_cast<std::size_t>(points));
  labels(label, first_point, points, clusters.data());
  // Whole points, as a coordinate may depend on the coordinates before it.
  std::vector<double> whole(static_cast<std::size_t>(points * dimension));
  RandomStream(seed_, planned.name)
      .normal(first_point * dimension, points * dimension, whole.data());
  clusters_->place(clusters, whole.data());
  std::copy_n(whole.begin() + (first - first_point * dimension), count, out);
}

void Recipe::values(const Planned& planned, Index first, Index count, double* out) const {
  if (count == 0) return;
  if (clusters_) {
    points(planned, first, count, out);
    return;
  }
  const RandomStream stream(seed_, planned.name);
  if (kind_ == Kind::uniform) {
    stream.uniform(first, count, out);
  } else {
    stream.normal(first, count, out);
  }
  const double inputs = by_fan_in_ ? static_cast<double>(planned.shape.back()) : 1;
  const double factor = factor_ / std::sqrt(inputs);
  for (Index k = 0; k < count; ++k) out[k] = shift_ + factor * out[k];
}

}  // namespace attn::tools
