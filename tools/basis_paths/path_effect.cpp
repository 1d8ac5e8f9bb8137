// The effect of a run of basis-paths on the results in a bundle.

#include "basis_paths/path_task.hpp"

namespace attn::tools {
namespace {

using Names = std::set<std::string>;

const Names skeleton = {"skeleton_q", "skeleton_k"};

void add(Names& names, const Names& more) { names.insert(more.begin(), more.end()); }

// Weights, and datasets that scale with them, are rewritten as far as they were read. Values of
// paths stay: rescaling does not change them.
void rescale(const std::vector<ArraySource>& read, RunEffect& effect) {
  for (const ArraySource& dataset : read) {
    if (dataset.name() == "wk_skeleton") {
      effect.results["wk_skeleton"] = {"wq", "wk", "skeleton_q", "skeleton_k"};
    } else if (dataset.name() != "scale") {
      effect.replaced.insert(dataset.name());
    }
  }
  effect.still_true = {"basis_value", "path_value"};
}

}  // namespace

RunEffect PathTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  const Names of_weights = {"wq", "wk", "skeleton_q", "skeleton_k"};
  if (verb == "identify" || verb == "values" || verb == "start" ||
      (verb == "step" && has_skeleton())) {
    add(effect.replaced, skeleton);
    if (rule == SkeletonRule::stored) effect.unchanged = skeleton;
  }
  if (verb == "identify") effect.results["basis_path"] = skeleton;
  if (makes_exponents()) {
    for (const char* name : {"path_basis", "path_exponent"}) {
      effect.results[name] = skeleton;
      if (operand("path") != nullptr) effect.results[name].insert("path");
    }
  }
  if (verb == "values") {
    effect.results["basis_value"] = of_weights;
    effect.results["wk_skeleton"] = of_weights;
  }
  if (verb == "reconstruct" && makes_paths()) {
    effect.results["path_value"] = {"basis_value", "skeleton_q", "skeleton_k"};
    if (operand("path") != nullptr) effect.results["path_value"].insert("path");
  } else if (verb == "reconstruct") {
    add(effect.replaced, {"wq", "wk"});
    effect.still_true = {"basis_value", "wk_skeleton"};
  }
  if (verb == "rescale") rescale(datasets(), effect);
  if (verb != "step" && verb != "start") return effect;
  // New weights have other gradients.
  add(effect.replaced, {"wq", "wk", "grad_wq", "grad_wk"});
  if (verb == "step") {
    for (const std::string& name : state_names(step)) effect.replaced.insert(name);
  }
  return effect;
}

}  // namespace attn::tools
