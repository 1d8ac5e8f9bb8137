#include "shared/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "cli/values.hpp"
#include "tensor/error.hpp"
#include "tensor/random.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_axes = 32;  // of HDF5

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
  for (const std::string& item : cli::split(word.substr(equals + 1), 'x')) {
    const std::optional<Index> axis = cli::to_integer(item);
    if (!axis || *axis < 0) usage("expected NAME=SHAPE, got " + word, hint);
    planned.shape.push_back(*axis);
  }
  if (planned.shape.size() > most_axes) {
    usage(fmt::format("{} has {} axes, at most {} can be stored", planned.name,
                      planned.shape.size(), most_axes));
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

// The axes that the project's names stand for.
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
  centres_ = arguments.points("centres");
  if (centres_.empty()) usage("--centres is missing", "such as --centres \"1.8,0.7;-1,-1\"");
  const std::size_t count = centres_.size();
  const auto require = [&](std::size_t size, const char* option) {
    if (size != count) {
      usage(fmt::format("--{} has {} items, --centres has {} points", option, size, count));
    }
  };

  deviations_ = arguments.numbers("variance");
  if (deviations_.size() == 1) deviations_.resize(count, deviations_.front());
  require(deviations_.size(), "variance");
  for (double& value : deviations_) value = std::sqrt(value);

  if (kind_ == Kind::clusters) {
    if (!arguments.given("counts")) usage("--counts is missing", "such as --counts 500,50");
    Index sum = 0;
    for (const Index points : arguments.integers("counts")) {
      if (__builtin_add_overflow(sum, points, &sum)) usage("--counts add up to too many points");
      count_ends_.push_back(sum);
    }
    require(count_ends_.size(), "counts");
    return;
  }
  std::vector<double> weights = arguments.numbers("weights");
  if (weights.empty()) weights.assign(count, 1.0);
  require(weights.size(), "weights");
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
  const auto dimension = static_cast<Index>(centres_.front().size());
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
    for (Index k = 0; k < count; ++k) {
      const auto end =
          std::upper_bound(count_ends_.begin(), count_ends_.end(), (first + k) % points);
      out[k] = end - count_ends_.begin();
    }
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
  const Index end_point = (first + count - 1) / dimension + 1;
  Planned label;
  label.shape = leading_axes(planned.shape, 1);
  label.points_name = planned.name;
  std::vector<std::int64_t> clusters(static_cast<std::size_t>(end_point - first_point));
  labels(label, first_point, end_point - first_point, clusters.data());
  for (Index k = 0; k < count; ++k) {
    const Index at = first + k;
    const auto cluster =
        static_cast<std::size_t>(clusters[static_cast<std::size_t>(at / dimension - first_point)]);
    out[k] =
        centres_[cluster][static_cast<std::size_t>(at % dimension)] + deviations_[cluster] * out[k];
  }
}

void Recipe::values(const Planned& planned, Index first, Index count, double* out) const {
  if (count == 0) return;
  const RandomStream stream(seed_, planned.name);
  if (kind_ == Kind::uniform) {
    stream.uniform(first, count, out);
  } else {
    stream.normal(first, count, out);
  }
  if (!centres_.empty()) {
    points(planned, first, count, out);
    return;
  }
  for (Index k = 0; k < count; ++k) out[k] = shift_ + factor_ * out[k];
}

}  // namespace attn::tools
