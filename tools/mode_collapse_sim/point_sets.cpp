#include "mode_collapse_sim/point_sets.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/cluster_options.hpp"
#include "head/operand.hpp"
#include "tensor/random.hpp"

namespace attn::tools {

PointSets::PointSets(const cli::Arguments& arguments, const io::InputBundle* input, bool labelled) {
  const bool stored = input != nullptr && input->has("x");
  if (!stored) {
    if (input != nullptr && !asks_for_clusters(arguments)) input->dataset("x");
    draw(arguments);
    f64 = arguments.f64.value_or(true);
    return;
  }
  for (const char* option :
       {"centres", "counts", "variance", "diagonal", "covariance", "seed", "seeds"}) {
    if (!arguments.given(option)) continue;
    throw Error(Failure::usage, fmt::format("--{} is for drawn points, but {} has a dataset x",
                                            option, input->description()));
  }
  take(*input, labelled, arguments.memory);
  f64 = arguments.f64.value_or(datasets_.front().dtype() == DType::f64);
}

void PointSets::draw(const cli::Arguments& arguments) {
  clusters_ = read_clusters(arguments);
  count_ends_ = read_count_ends(arguments, *clusters_);
  seed_ = arguments.seed;
  sets = arguments.integer("seeds").value_or(1);
  if (arguments.given("seeds")) leading = {sets};
  points = count_ends_.back();
  dimension = clusters_->dimension;
  clusters = static_cast<Index>(count_ends_.size());
  for (Index c = 0; c < clusters; ++c) names_.push_back(c);
  // Beyond any memory, so that byte counts derived from it do not overflow.
  constexpr Index most = Index{1} << 48;
  if (points > most / dimension) {
    throw Error(Failure::usage, "--counts add up to too many points");
  }
}

void PointSets::take(const io::InputBundle& input, bool labelled, std::int64_t memory) {
  const ArraySource x = input.dataset("x");
  require_vectors(x, "(..., points, coordinates)");
  datasets_.push_back(x);
  leading = leading_axes(x.shape(), 2);
  sets = element_count(leading);
  points = x.shape()[x.shape().size() - 2];
  dimension = x.shape().back();
  if (labelled) take_labels(input, memory);
}

void PointSets::take_labels(const io::InputBundle& input, std::int64_t memory) {
  const ArraySource label = input.dataset("label");
  const Shape own = leading_axes(datasets_.front().shape(), 1);
  if (!is_integral(label.dtype())) {
    throw Error(Failure::input, fmt::format("{} has type {}, expected an integer type",
                                            label.address(), label.type()));
  }
  if (label.shape() != own && label.shape() != Shape{points}) {
    throw Error(Failure::input, fmt::format("{} has the shape {}, expected {}", label.address(),
                                            to_string(label.shape()), to_string(own)));
  }
  datasets_.push_back(label);
  // Labels are read at once, before the verb is known.
  require_readable(label, memory);
  if (points > memory / static_cast<Index>(sizeof(std::int64_t))) {
    throw Error(Failure::memory,
                fmt::format("{} takes {} per set, but --memory allows {}", label.address(),
                            bytes_text(8.0 * static_cast<double>(points)),
                            bytes_text(static_cast<double>(memory))));
  }
  std::set<std::int64_t> found;
  for (Index set = 0; set < (label.shape() == own ? sets : 1); ++set) {
    const std::vector<std::int64_t> some = stored_labels(set);
    found.insert(some.begin(), some.end());
  }
  names_.assign(found.begin(), found.end());
  clusters = static_cast<Index>(names_.size());
}

std::vector<std::int64_t> PointSets::stored_labels(Index set) const {
  const ArraySource& dataset = datasets_[1];
  const bool by_set = dataset.shape().size() > 1;
  const Shape at = by_set ? unravel(set, leading) : Shape{};
  std::vector<std::int64_t> labels(static_cast<std::size_t>(points));
  dataset.read(join(at, {0}), join(Shape(at.size(), 1), {points}), labels.data());
  return labels;
}

std::vector<std::int64_t> PointSets::labels(Index set) const {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(points));
  if (drawn()) {
    for (Index n = 0; n < points; ++n) {
      labels[static_cast<std::size_t>(n)] = cluster_of(count_ends_, n);
    }
    return labels;
  }
  labels = stored_labels(set);
  std::vector<bool> seen(names_.size(), false);
  for (std::int64_t& label : labels) {
    label = std::lower_bound(names_.begin(), names_.end(), label) - names_.begin();
    seen[static_cast<std::size_t>(label)] = true;
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return labels;
  throw Error(Failure::input,
              fmt::format("{} has no point labelled {}, but another set has one", place(set),
                          names_[static_cast<std::size_t>(missing - seen.begin())]));
}

template <class T>
void PointSets::read(Index set, T* out) const {
  if (!drawn()) {
    const ArraySource& x = datasets_.front();
    const Shape at = unravel(set, leading);
    const Shape start = join(at, {0, 0});
    const Shape count = join(Shape(at.size(), 1), {points, dimension});
    x.read(start, count, out);
    return require_finite(x, start, count, out);
  }
  const RandomStream stream(seed_ + static_cast<std::uint64_t>(set), "x");
  constexpr Index piece = 4096;
  std::vector<std::int64_t> labels;
  std::vector<double> some;
  for (Index first = 0; first < points; first += piece) {
    const Index end = std::min(points, first + piece);
    labels.clear();
    for (Index n = first; n < end; ++n) labels.push_back(cluster_of(count_ends_, n));
    some.resize(static_cast<std::size_t>((end - first) * dimension));
    stream.normal(first * dimension, (end - first) * dimension, some.data());
    clusters_->place(labels, some.data());
    for (std::size_t k = 0; k < some.size(); ++k) {
      T& value = out[first * dimension + static_cast<Index>(k)];
      value = static_cast<T>(some[k]);
      if (std::isfinite(value)) continue;
      throw Error(Failure::numerical, place(set) + ": a point exceeds the format",
                  sizeof(T) == sizeof(float) ? "--precision f64" : "");
    }
  }
}

void PointSets::report_params(const cli::Arguments& arguments, Index steps,
                              const std::set<std::string>& emitted, cli::Report& report) const {
  auto& params = report.params();
  params["precision"] = f64 ? "f64" : "f32";
  params["steps"] = steps;
  params["emit"] = emitted;
  if (drawn()) params["seeds"] = arguments.integer("seeds").value_or(1);
  for (const ArraySource& dataset : datasets_) report_input(report, dataset);
}

std::string PointSets::text() const {
  return "points " + times(join(leading, {points, dimension}));
}

std::string PointSets::place(Index set) const {
  if (drawn()) return fmt::format("seed {}", seed_ + static_cast<std::uint64_t>(set));
  std::string address = datasets_.front().address();
  if (leading.empty()) return address;
  return fmt::format("{} [{}]", address, fmt::join(unravel(set, leading), ", "));
}

template void PointSets::read(Index, float*) const;
template void PointSets::read(Index, double*) const;

}  // namespace attn::tools
