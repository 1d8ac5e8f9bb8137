#include "attn_train/scene_input.hpp"

#include <fmt/format.h>

#include "common/frame/bundles.hpp"

namespace attn::tools {
namespace {

template <class Number>
std::vector<Number> read_all(const ArraySource& dataset) {
  std::vector<Number> numbers(static_cast<std::size_t>(element_count(dataset.shape())));
  if (!numbers.empty()) {
    dataset.read(Shape(dataset.shape().size(), 0), dataset.shape(), numbers.data());
  }
  return numbers;
}

std::vector<std::int64_t> read_integers(const io::InputBundle& bundle, const std::string& name,
                                        const Shape& shape) {
  const ArraySource dataset = bundle.dataset(name);
  if (dataset.shape() != shape) {
    throw Error(Failure::input, fmt::format("{} is {}, expected {}", dataset.address(),
                                            times(dataset.shape()), times(shape)));
  }
  return read_all<std::int64_t>(dataset);
}

Index count_of(const io::InputBundle& bundle, const std::string& file, const std::string& name) {
  const std::optional<double> count = bundle.number_attribute(name);
  if (count && *count >= 1 && *count <= 1e6) return static_cast<Index>(*count);
  throw Error(Failure::input, fmt::format("{}: attribute {} is missing or wrong, as tensor-gen "
                                          "scenes writes it",
                                          file, name));
}

}  // namespace

SceneInput read_scenes(const cli::Arguments& arguments, cli::Report& report,
                       const std::string& address) {
  io::InputBundle::Options options = input_options(arguments, report);
  options.input = address;
  const io::InputBundle bundle(options);
  const ArraySource views = bundle.dataset("views");
  report_input(report, views);
  const Shape& shape = views.shape();
  if (shape.size() != 4) {
    throw Error(Failure::input, fmt::format("{} is {}, expected scenes x views x boxes x features",
                                            views.address(), times(shape)));
  }
  SceneInput input;
  train::SceneData& scenes = input.scenes;
  scenes.views = shape[1];
  scenes.boxes = shape[2];
  scenes.width = shape[3];
  scenes.features = read_all<float>(views);
  scenes.counts = read_integers(bundle, "box_counts", {shape[0], shape[1]});
  scenes.kinds = read_integers(bundle, "question_kinds", {shape[0]});
  scenes.arguments = read_integers(bundle, "arguments", {shape[0]});
  scenes.answers = read_integers(bundle, "answers", {shape[0]});
  scenes.object_kinds = count_of(bundle, address, "kinds");
  scenes.colours = count_of(bundle, address, "colours");
  scenes.objects = count_of(bundle, address, "objects");
  const ArraySource maps = bundle.dataset("maps");
  if (maps.shape().size() != 3 || maps.shape()[0] != scenes.views || shape[1] < 2) {
    throw Error(Failure::input,
                fmt::format("{} is {}, expected one map for each of 2 or more views",
                            maps.address(), times(maps.shape())));
  }
  input.maps = read_all<double>(maps);
  return input;
}

}  // namespace attn::tools
