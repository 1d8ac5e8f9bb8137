#include "common/heads/head_transforms.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

class Reader {
 public:
  Reader(const io::InputBundle& bundle, std::vector<ArraySource>& read)
      : bundle_(bundle), read_(read) {}

  // All numbers of a dataset, which are finite.
  std::vector<double> numbers(const ArraySource& dataset) {
    require_floating(dataset);
    const Shape& shape = dataset.shape();
    std::vector<double> found(static_cast<std::size_t>(element_count(shape)));
    dataset.read(Shape(shape.size(), 0), shape, found.data());
    require_finite(dataset, Shape(shape.size(), 0), shape, found.data());
    read_.push_back(dataset);
    return found;
  }

  // Of queries, or of keys, whose heads are grouped.
  std::optional<HeadNorm> norm(const std::string& side, const Shape& leading, bool grouped,
                               Vectors& made) {
    const std::string layer = side + "_layer_norm";
    const std::optional<std::string> name = one_of(side + "_norm", layer);
    if (bundle_.has(layer + "_bias") && name != layer) {
      throw Error(Failure::input, fmt::format("{} has no effect without {}",
                                              bundle_.dataset(layer + "_bias").address(), layer));
    }
    if (!name) return std::nullopt;
    HeadNorm norm;
    norm.centred = *name == layer;
    const ArraySource weights = bundle_.dataset(*name);
    const Index heads = made.heads();
    const Shape all = {heads * made.cols};
    norm.all_heads = heads > 1 && weights.shape() == all;
    const Shape by_head = {heads, made.cols};
    if (!norm.all_heads && weights.shape() != by_head && weights.shape() != Shape{made.cols}) {
      throw Error(Failure::input,
                  fmt::format("{} has shape {}, expected {} or {} for a norm of each head, or {} "
                              "for one over all heads",
                              weights.address(), to_string(weights.shape()),
                              to_string(Shape{made.cols}), to_string(by_head), to_string(all)));
    }
    norm.weights = numbers(weights);
    const auto operand = [&](const ArraySource& source) {
      if (!norm.all_heads) return vector_operand(source, leading, grouped, made.cols);
      Operand whole{
          source, {}, 1, heads * made.cols, LeadingMap(leading, {}, false, source.address())};
      whole.heads = HeadAxis::whole;
      return whole;
    };
    made.norm = operand(weights);
    if (bundle_.has(layer + "_bias")) {
      const ArraySource bias = bundle_.dataset(layer + "_bias");
      if (bias.shape() != weights.shape()) {
        throw Error(Failure::input,
                    fmt::format("{} has shape {}, expected {}, as {}", bias.address(),
                                to_string(bias.shape()), to_string(weights.shape()), *name));
      }
      norm.bias = numbers(bias);
      made.norm_bias = operand(bias);
    }
    norm.epsilon = epsilon(weights);
    if (norm.all_heads && made.bias && made.bias->leading != made.weights->leading) {
      throw Error(
          Failure::input,
          fmt::format("{} has shape {}, expected {}: {} is a norm over all heads",
                      made.bias->dataset.address(), to_string(made.bias->dataset.shape()),
                      to_string(join(made.weights->leading, {made.cols})), weights.address()));
    }
    return norm;
  }

  std::optional<Rotary> rotary(Index channels) {
    const std::optional<std::string> name = one_of("rotary", "rotary_interleaved");
    if (!name) return std::nullopt;
    const ArraySource dataset = bundle_.dataset(*name);
    const Shape& shape = dataset.shape();
    const bool fits = !shape.empty() && shape.back() > 0 && 2 * shape.back() <= channels &&
                      (shape.size() == 1 || (shape.size() == 2 && shape.front() == 2));
    if (!fits) {
      throw Error(Failure::input,
                  fmt::format("{} has shape {}, expected (n), the angle per position of n pairs of "
                              "channels, or (2, n) with a factor of each pair, n at most {}",
                              dataset.address(), to_string(shape), channels / 2));
    }
    const std::vector<double> read = numbers(dataset);
    const auto pairs = static_cast<std::ptrdiff_t>(shape.back());
    Rotary rotary{{read.begin(), read.begin() + pairs}, {read.begin() + pairs, read.end()}, false};
    if (rotary.factors.empty()) rotary.factors.assign(rotary.frequencies.size(), 1.0);
    rotary.interleaved = *name == "rotary_interleaved";
    return rotary;
  }

 private:
  // Which of two names the bundle has.
  std::optional<std::string> one_of(const std::string& first, const std::string& second) const {
    if (bundle_.has(first) && bundle_.has(second)) {
      throw Error(Failure::input, fmt::format("{} has {} and {}, expected one of them",
                                              bundle_.description(), first, second));
    }
    if (bundle_.has(first)) return first;
    return bundle_.has(second) ? std::optional(second) : std::nullopt;
  }

  double epsilon(const ArraySource& norm) {
    if (!bundle_.has("norm_epsilon")) {
      throw Error(Failure::input,
                  fmt::format("{} needs a dataset norm_epsilon, which is added to the variance",
                              norm.address()));
    }
    const ArraySource dataset = bundle_.dataset("norm_epsilon");
    if (element_count(dataset.shape()) != 1) {
      throw Error(Failure::input, fmt::format("{} has shape {}, expected a scalar",
                                              dataset.address(), to_string(dataset.shape())));
    }
    const double value = numbers(dataset).front();
    if (value >= 0) return value;
    throw Error(Failure::input,
                fmt::format("{} is {}, expected at least 0", dataset.address(), value));
  }

  const io::InputBundle& bundle_;
  std::vector<ArraySource>& read_;
};

}  // namespace

std::vector<ArraySource> take_transforms(const io::InputBundle& bundle, const Shape& leading,
                                         Vectors& q, Vectors& k) {
  std::vector<ArraySource> datasets;
  Reader reader(bundle, datasets);
  const std::optional<Rotary> rotary = reader.rotary(std::min(q.cols, k.cols));
  const auto take = [&](const char* side, bool grouped, Vectors& made) {
    HeadTransform all{reader.norm(side, leading, grouped, made), rotary};
    if (!all.norm && !all.rotary) return;
    made.transform = std::make_shared<const HeadTransform>(std::move(all));
  };
  take("q", false, q);
  take("k", true, k);
  if (bundle.has("norm_epsilon") && !q.norm && !k.norm) {
    throw Error(Failure::input, fmt::format("{} has no effect without q_norm or k_norm",
                                            bundle.dataset("norm_epsilon").address()));
  }
  return datasets;
}

}  // namespace attn::tools
