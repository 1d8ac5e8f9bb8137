#include "tensor_gen/scenes.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor_gen/listing.hpp"
#include "tensor_gen/scene_maker.hpp"

namespace attn::tools {
namespace {

using Range = cli::Declaration::Range;

// Together, these limits keep the bytes of all datasets below 2^63.
constexpr Index most_objects = 4096;
constexpr Index most_features = 65536;
constexpr Index most_scenes = 500'000'000;
// The number of scenes at a time: enough for all threads.
constexpr Index most_bytes = Index{1} << 25;

SceneOptions scene_options(const cli::Arguments& arguments) {
  SceneOptions options;
  options.objects = *arguments.integer("objects");
  options.boxes = *arguments.integer("boxes");
  options.features = *arguments.integer("features");
  options.noise = *arguments.number("noise");
  options.missing = *arguments.number("missing");
  options.full = arguments.text("clutter") == "full";
  options.seed = arguments.seed;
  options.map_seed = static_cast<std::uint64_t>(*arguments.integer("map-seed"));
  if (options.objects > options.boxes) {
    throw Error(Failure::usage, fmt::format("--objects is {}, more than --boxes {}",
                                            options.objects, options.boxes));
  }
  return options;
}

// A dataset of the bundle, with the function that writes some of its scenes.
struct SceneDataset {
  std::string name;
  DType type;
  Shape shape;  // the first axis is that of the scenes
  std::vector<std::string> labels;
  std::function<void(io::OutputDataset&, const Shape& start, const Shape& count, const Scenes&)>
      write;
};

// The dataset that holds a member of Scenes.
template <class Values>
SceneDataset holding(const std::string& name, DType type, const Shape& shape,
                     const std::vector<std::string>& labels, Values Scenes::*member) {
  return {name, type, shape, labels,
          [member](io::OutputDataset& dataset, const Shape& start, const Shape& count,
                   const Scenes& scenes) { dataset.write(start, count, (scenes.*member).data()); }};
}

std::vector<SceneDataset> datasets_of(Index scenes, const SceneOptions& options, DType type) {
  const Index detectors = SceneMaker::detectors;
  return {
      holding("views", type, {scenes, detectors, options.boxes, options.features},
              {"scene", "detector", "box", "feature"}, &Scenes::views),
      holding("box_counts", DType::i64, {scenes, detectors}, {"scene", "detector"},
              &Scenes::box_counts),
      holding("question_kinds", DType::i64, {scenes}, {"scene"}, &Scenes::question_kinds),
      holding("arguments", DType::i64, {scenes}, {"scene"}, &Scenes::arguments),
      holding("answers", DType::i64, {scenes}, {"scene"}, &Scenes::answers),
      holding("object_attributes", DType::i64, {scenes, options.objects, 3},
              {"scene", "object", "kind, colour, size"}, &Scenes::attributes),
      holding("object_places", type, {scenes, options.objects, 2},
              {"scene", "object", "coordinate"}, &Scenes::places),
      holding("box_objects", DType::i64, {scenes, detectors, options.boxes},
              {"scene", "detector", "box"}, &Scenes::box_objects),
  };
}

void write_scenes(const cli::Arguments& arguments, cli::Report& report, const SceneMaker& maker,
                  Index scenes, const std::vector<SceneDataset>& plan, io::OutputBundle& output) {
  std::vector<io::OutputDataset> datasets;
  Index bytes = 0;
  for (const SceneDataset& one : plan) {
    datasets.push_back(output.create(one.name, one.type, one.shape, one.labels));
    if (scenes > 0) bytes += element_count(one.shape) / scenes * 8;
  }
  const Index room = arguments.memory / 4;
  if (bytes > room) {
    throw Error(Failure::memory, fmt::format("a scene takes {}, --memory allows {}",
                                             bytes_text(4 * static_cast<double>(bytes)),
                                             bytes_text(static_cast<double>(arguments.memory))));
  }
  const Index at_once = std::clamp<Index>(std::min(room, most_bytes) / std::max<Index>(bytes, 1), 1,
                                          std::max<Index>(scenes, 1));
  Scenes block = maker.room(at_once);
  cli::Progress progress(arguments, "generating", static_cast<double>(scenes), "scenes");
  for (Index first = 0; first < scenes; first += at_once) {
    const Index count = std::min(at_once, scenes - first);
    report.compute([&] {
      parallel_for(count, arguments.threads,
                   [&](Index n, int) { maker.make(first + n, block, n); });
    });
    for (std::size_t n = 0; n < plan.size(); ++n) {
      Shape start(plan[n].shape.size(), 0);
      Shape part = plan[n].shape;
      start.front() = first;
      part.front() = count;
      plan[n].write(datasets[n], start, part, block);
    }
    progress.advance(static_cast<double>(count));
  }
}

Shape maps_shape(const SceneOptions& options) {
  return {SceneMaker::detectors, options.features, SceneMaker::code_length};
}

void write_maps(const SceneMaker& maker, const SceneOptions& options, DType type,
                io::OutputBundle& output) {
  const Shape shape = maps_shape(options);
  output.create("maps", type, shape, {"detector", "feature", "code"})
      .write({0, 0, 0}, shape, maker.maps().data());
  output.attribute("kinds", std::int64_t{SceneMaker::kinds});
  output.attribute("colours", std::int64_t{SceneMaker::colours});
  output.attribute("objects", std::int64_t{options.objects});
}

}  // namespace

void declare_scenes(cli::Declaration& tool) {
  const std::vector<std::string> scenes = {"scenes"};
  tool.integer("scenes", "N", "Number of scenes", 0, most_scenes, 1000)
      .only_with(scenes)
      .integer("map-seed", "N",
               "Seed of the detectors: bundles with the same one can be used together", 0,
               std::numeric_limits<Index>::max(), 0)
      .only_with(scenes)
      .integer("objects", "N", "Objects of a scene", 1, most_objects, 12)
      .only_with(scenes)
      .integer("boxes", "N", "The most boxes of a detector", 1, most_objects, 20)
      .only_with(scenes)
      .integer("features", "N", "Features of a box", 1, most_features, 64)
      .only_with(scenes)
      .number("noise", "X", "Standard deviation of the noise of a feature", Range::non_negative(),
              0.3)
      .only_with(scenes)
      .number("missing", "X", "Probability that a detector misses an object", {0, 1}, 0.2)
      .only_with(scenes)
      .choice("clutter", {"random", "full"},
              "Boxes without an object: a random number of the remaining boxes, or all of them",
              "random")
      .only_with(scenes)
      .result("views", "(scenes, 3, boxes, features)",
              "scenes: the boxes of each detector; 0 for padding")
      .result("box_counts", "(scenes, 3)",
              "scenes: how many boxes of a view are not padding, int64")
      .result("question_kinds", "(scenes)",
              "scenes: 0: which colour has the object of a kind? 1: how many objects have a "
              "colour? int64")
      .result("arguments", "(scenes)",
              "scenes: that kind in 0 ... 9, or that colour in 0 ... 7, int64")
      .result("answers", "(scenes)", "scenes: a colour, or a number of objects, int64")
      .result("object_attributes", "(scenes, objects, 3)",
              "scenes: kind, colour and size (0 ... 3) of each object, int64")
      .result("object_places", "(scenes, objects, 2)", "scenes: where each object is, in [-1, 1)")
      .result("box_objects", "(scenes, 3, boxes)",
              "scenes: the object that a box shows, -1 for clutter and -2 for padding, int64")
      .result("maps", "(3, features, 24)", "scenes: the map A of each detector")
      .example("tensor-gen scenes --scenes 1000 --seed 1 -o scenes.h5",
               "Make scenes that three detectors see, with questions, to train attn-train on.");
}

cli::Outcome run_scenes(const cli::Arguments& arguments, cli::Report& report) {
  if (!arguments.words().empty()) {
    throw Error(Failure::usage,
                "scenes makes datasets of given names and takes no " + arguments.words().front(),
                "--scenes N says how many scenes");
  }
  const SceneOptions options = scene_options(arguments);
  const Index scenes = *arguments.integer("scenes");
  const DType type = arguments.text("dtype") == "f64" ? DType::f64 : DType::f32;
  const std::vector<SceneDataset> plan = datasets_of(scenes, options, type);
  Listing listing(arguments, report);
  for (const SceneDataset& one : plan) listing.add(one.name, one.type, one.shape);
  listing.add("maps", type, maps_shape(options));
  listing.finish();
  if (arguments.dry_run) return {};

  io::OutputBundle output = open_output(arguments);
  output.add_history(arguments.command_line, arguments.version);
  const SceneMaker maker(options);
  write_scenes(arguments, report, maker, scenes, plan, output);
  write_maps(maker, options, type, output);
  return {0,
          fmt::format("scenes, {} of {} and {} detectors, {}, seed {}, map seed {} -> {}", scenes,
                      cli::counted(options.objects, "object"), SceneMaker::detectors,
                      listing.bytes(), arguments.seed, options.map_seed, listing.target()),
          commit_of(std::move(output), report)};
}

}  // namespace attn::tools
