#include "tensor_gen/scene_maker.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/random.hpp"

namespace attn::tools {
namespace {

// Numbers of a scene in the stream of objects: the question, its argument, its object; then for
// each object the kind, colour, size and place.
constexpr Index draws_of_question = 3;
constexpr Index draws_of_object = 5;

// The mean square of a code's numbers: three of them are 1, and two uniform in [−1, 1).
constexpr double code_square = (3 + 2.0 / 3) / SceneMaker::code_length;

// One of 0 … n − 1, for u in [0, 1).
std::int64_t one_of(double u, Index n) {
  return std::min(static_cast<Index>(u * static_cast<double>(n)), n - 1);
}

std::size_t place(Index index) { return static_cast<std::size_t>(index); }

}  // namespace

SceneMaker::SceneMaker(const SceneOptions& options)
    : options_(options), maps_(place(detectors * options.features * code_length)) {
  RandomStream(options.map_seed, "detector maps").normal(0, std::ssize(maps_), maps_.data());
  const double deviation = 1 / std::sqrt(static_cast<double>(options.features));
  for (double& x : maps_) x *= deviation;
}

Scenes SceneMaker::room(Index count) const {
  Scenes scenes;
  scenes.views.resize(place(count * detectors * options_.boxes * options_.features));
  scenes.box_counts.resize(place(count * detectors));
  scenes.box_objects.resize(place(count * detectors * options_.boxes));
  scenes.attributes.resize(place(count * options_.objects * 3));
  scenes.places.resize(place(count * options_.objects * 2));
  for (auto* const numbers : {&scenes.question_kinds, &scenes.arguments, &scenes.answers}) {
    numbers->resize(place(count));
  }
  return scenes;
}

void SceneMaker::make(Index number, Scenes& scenes, Index at) const {
  make_objects(number, scenes, at);
  for (Index m = 0; m < detectors; ++m) make_boxes(number, m, scenes, at);
}

void SceneMaker::make_objects(Index number, Scenes& scenes, Index at) const {
  const Index objects = options_.objects;
  std::vector<double> draws(place(draws_of_question + draws_of_object * objects));
  RandomStream(options_.seed, "scene objects")
      .uniform(number * std::ssize(draws), std::ssize(draws), draws.data());
  const bool counts = draws[0] >= 0.5;
  const std::int64_t argument = one_of(draws[1], counts ? colours : kinds);
  const std::int64_t chosen = one_of(draws[2], objects);
  std::int64_t answer = 0;
  for (Index n = 0; n < objects; ++n) {
    const double* const u = draws.data() + draws_of_question + draws_of_object * n;
    std::int64_t* const attributes = scenes.attributes.data() + (at * objects + n) * 3;
    if (counts) {
      attributes[0] = one_of(u[0], kinds);
    } else {
      // Any kind but the argument.
      const std::int64_t other = one_of(u[0], kinds - 1);
      attributes[0] = n == chosen ? argument : other + (other >= argument ? 1 : 0);
    }
    attributes[1] = one_of(u[1], colours);
    attributes[2] = one_of(u[2], sizes);
    double* const where = scenes.places.data() + (at * objects + n) * 2;
    where[0] = 2 * u[3] - 1;
    where[1] = 2 * u[4] - 1;
    if (counts) {
      answer += attributes[1] == argument ? 1 : 0;
    } else if (n == chosen) {
      answer = attributes[1];
    }
  }
  scenes.question_kinds[place(at)] = counts ? 1 : 0;
  scenes.arguments[place(at)] = argument;
  scenes.answers[place(at)] = answer;
}

void SceneMaker::write_code(const Scenes& scenes, Index object, double* code) const {
  std::fill_n(code, code_length, 0.0);
  const std::int64_t* const attributes = scenes.attributes.data() + object * 3;
  code[attributes[0]] = 1;
  code[kinds + attributes[1]] = 1;
  code[kinds + colours + attributes[2]] = 1;
  std::copy_n(scenes.places.data() + object * 2, 2, code + kinds + colours + sizes);
}

void SceneMaker::make_boxes(Index number, Index detector, Scenes& scenes, Index at) const {
  const Index boxes = options_.boxes;
  const Index features = options_.features;
  const Index view = number * detectors + detector;

  // Whether each object is missing, the amount of clutter, and a key of each box.
  std::vector<double> draws(place(options_.objects + 1 + boxes));
  RandomStream(options_.seed, "scene detectors")
      .uniform(view * std::ssize(draws), std::ssize(draws), draws.data());
  std::vector<std::int64_t> shown;
  for (Index n = 0; n < options_.objects; ++n) {
    if (draws[place(n)] >= options_.missing) shown.push_back(n);
  }
  const Index left = boxes - std::ssize(shown);
  const Index added = options_.full ? left : one_of(draws[place(options_.objects)], left + 1);
  shown.resize(shown.size() + place(added), Scenes::clutter);
  const double* const keys = draws.data() + options_.objects + 1;
  std::vector<Index> order(shown.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return keys[a] < keys[b]; });

  std::vector<double> clutter(place(boxes * code_length));
  RandomStream(options_.seed, "scene clutter")
      .normal(view * std::ssize(clutter), std::ssize(clutter), clutter.data());
  double* const out = scenes.views.data() + (at * detectors + detector) * boxes * features;
  RandomStream(options_.seed, "scene noise").normal(view * boxes * features, boxes * features, out);
  std::int64_t* const objects = scenes.box_objects.data() + (at * detectors + detector) * boxes;
  std::fill_n(objects, boxes, Scenes::padding);
  scenes.box_counts[place(at * detectors + detector)] = std::ssize(shown);
  const double* const map = maps_.data() + detector * features * code_length;
  for (Index i = 0; i < std::ssize(shown); ++i) {
    objects[i] = shown[place(order[place(i)])];
    double* const code = clutter.data() + i * code_length;
    if (objects[i] == Scenes::clutter) {
      for (Index c = 0; c < code_length; ++c) code[c] *= std::sqrt(code_square);
    } else {
      write_code(scenes, at * options_.objects + objects[i], code);
    }
    for (Index f = 0; f < features; ++f) {
      double& x = out[i * features + f];
      x *= options_.noise;
      for (Index c = 0; c < code_length; ++c) x += map[f * code_length + c] * code[c];
    }
  }
  std::fill(out + std::ssize(shown) * features, out + boxes * features, 0.0);
}

}  // namespace attn::tools
