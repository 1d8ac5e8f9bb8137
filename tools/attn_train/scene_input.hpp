#pragma once

#include <string>

#include "cli/command.hpp"
#include "train/scene_batches.hpp"

namespace attn::tools {

/// Scenes of a bundle that `tensor-gen scenes` made, and the detectors that saw them.
struct SceneInput {
  train::SceneData scenes;
  std::vector<double> maps;  ///< of the detectors; bundles with equal maps can be combined
};

/// Reads a bundle. Throws Error(input) for missing datasets or attributes, or wrong shapes.
SceneInput read_scenes(const cli::Arguments& arguments, cli::Report& report,
                       const std::string& address);

}  // namespace attn::tools
