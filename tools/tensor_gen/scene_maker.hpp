#pragma once

#include <cstdint>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::tools {

/// The options of scenes. Kinds, colours and sizes are as in SceneMaker.
struct SceneOptions {
  Index objects = 12;    ///< >= 1, of each scene
  Index boxes = 20;      ///< >= objects, the most for each detector
  Index features = 64;   ///< >= 1, of a box
  double noise = 0.3;    ///< >= 0, standard deviation
  double missing = 0.2;  ///< in [0, 1]
  bool full = false;     ///< clutter fills all boxes
  std::uint64_t seed = 0;
  std::uint64_t map_seed = 0;
};

/// Some scenes, one after the other.
struct Scenes {
  std::vector<double> views;             ///< (scenes, detectors, boxes, features); 0 for padding
  std::vector<std::int64_t> box_counts;  ///< (scenes, detectors)
  /// (scenes, detectors, boxes): the object that a box shows; clutter or padding.
  std::vector<std::int64_t> box_objects;
  std::vector<std::int64_t> attributes;  ///< (scenes, objects, 3): kind, colour, size
  std::vector<double> places;            ///< (scenes, objects, 2)
  std::vector<std::int64_t> question_kinds, arguments, answers;  ///< (scenes)

  static constexpr std::int64_t clutter = -1;
  static constexpr std::int64_t padding = -2;
};

/// Synthetic scenes that several detectors see, each with a question. The kind, colour and size of
/// each object are uniform, as are the two numbers of its place, in [−1, 1). The object's code a
/// has the one-hot codes of kind, colour and size, and the place: 24 numbers.
///
/// A detector m misses each object independently with probability `missing`. For each object found
/// it makes a box A_m a + noise·z, with z normal. Then it adds clutter, boxes A_m b + noise·z with
/// normal b of a code's mean square. The number of clutter boxes is uniform between 0 and the
/// remaining boxes, or equals the latter if `full`. Boxes are in random order; padding follows. A_m
/// is normal with variance 1/features, so that noise has the unit of a code.
///
/// A scene has one of two questions, with probability 1/2 each. (0) Which colour has the object of
/// kind κ? One random object has kind κ, and all others have other kinds. (1) How many objects have
/// colour χ? κ and χ are uniform.
///
/// All numbers are a function of the options and the scene's number; A_m of map_seed and features
/// only.
class SceneMaker {
 public:
  static constexpr Index kinds = 10;
  static constexpr Index colours = 8;
  static constexpr Index sizes = 4;
  static constexpr Index detectors = 3;
  static constexpr Index code_length = kinds + colours + sizes + 2;

  explicit SceneMaker(const SceneOptions& options);

  /// A_m (detectors, features, code_length).
  const std::vector<double>& maps() const { return maps_; }

  /// Makes room for `count` scenes.
  Scenes room(Index count) const;

  /// Scene `number` as entry `at` of `scenes`. May run for several entries at a time.
  void make(Index number, Scenes& scenes, Index at) const;

 private:
  void make_objects(Index number, Scenes& scenes, Index at) const;
  void make_boxes(Index number, Index detector, Scenes& scenes, Index at) const;
  void write_code(const Scenes& scenes, Index object, double* code) const;

  SceneOptions options_;
  std::vector<double> maps_;
};

}  // namespace attn::tools
