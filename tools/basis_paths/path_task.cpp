#include "basis_paths/path_task.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/transform_names.hpp"
#include "paths/structure.hpp"

namespace attn::tools {
namespace {

// Bytes of a few matrices of this size can still be counted.
constexpr Index most_weights = Index{1} << 54;

bool is_vector(const std::string& name) {
  static const std::vector<std::string> vectors = {"scale",       "bq",         "bk",
                                                   "wk_skeleton", "skeleton_q", "skeleton_k"};
  return std::find(vectors.begin(), vectors.end(), name) != vectors.end();
}

// Whether the dataset may have fewer leading axes than the weights, and is then shared.
bool may_stretch(const std::string& name) {
  return name == "scale" || name == "skeleton_q" || name == "skeleton_k" || name == "path";
}

bool is_index(const std::string& name) {
  return name == "skeleton_q" || name == "skeleton_k" || name == "path";
}

std::vector<Path> parse_paths(const std::string& text, const PathInput& input) {
  std::vector<Path> paths;
  for (const std::string& item : cli::split(text, ';')) {
    std::vector<Index> index;
    for (const std::string& number : cli::split(item, ',')) {
      index.push_back(cli::to_integer(number).value_or(-1));
    }
    if (index.size() != 3 || std::find(index.begin(), index.end(), -1) != index.end()) {
      throw Error(Failure::usage, "--paths has '" + item +
                                      "', expected row of wq, row of wk, column, as in "
                                      "0,1,2;3,0,2, or all");
    }
    if (std::max(index[0], index[1]) >= input.rows || index[2] >= input.columns) {
      throw Error(Failure::usage,
                  fmt::format("--paths has {}, expected rows below {} and columns below {}", item,
                              input.rows, input.columns));
    }
    paths.push_back({index[0], index[1], index[2]});
  }
  return paths;
}

}  // namespace

void require_path_type(const ArraySource& dataset, bool index) {
  if (!index) return require_floating(dataset);
  if (is_integral(dataset.dtype()) && dataset.dtype() != DType::boolean) return;
  throw Error(Failure::input, fmt::format("{} has type {}, expected an integer type",
                                          dataset.address(), dataset.type()));
}

std::string shape_text(const ArraySource& dataset) {
  return dataset.address() + " has shape " + to_string(dataset.shape());
}

std::string rule_name(SkeletonRule rule) {
  switch (rule) {
    case SkeletonRule::cyclic:
      return "cyclic";
    case SkeletonRule::across_heads:
      return "cyclic across heads";
    case SkeletonRule::largest:
      return "largest";
    case SkeletonRule::stored:
      break;
  }
  return "stored";
}

bool PathTask::suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  if (arguments.verb == "reconstruct") return bundle.is_dataset("basis_value");
  return bundle.is_dataset("wq") && bundle.is_dataset("wk");
}

PathTask::PathTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)), verb(arguments.verb) {
  const bool of_basis = verb == "reconstruct";
  take_shape(of_basis ? "basis_value" : "wq", of_basis);
  take(of_basis ? "basis_value" : "wq");
  if (!of_basis) {
    take("wk");
    require_no_transforms(bundle, "paths are products of wq and wk alone");
  }
  if (verb == "step") take_step(arguments);
  if (has_skeleton()) take_skeleton(arguments);
  if (of_basis) take_paths(arguments);
  if (verb == "identify") take_exponents(arguments);
  if (verb == "check") {
    if (!arguments.given("skeleton")) {
      if (bundle.has("path")) {
        take_path_list();
      } else if (bundle.has("basis_path")) {
        take("basis_path");
      }
    }
    length = arguments.integer("length");
    if (!length && bundle.has("x")) {
      const ArraySource x = bundle.dataset("x");
      if (x.shape().size() >= 2) length = x.shape()[x.shape().size() - 2];
    }
  }
  if (verb == "rescale") {
    take("scale");
    for (const char* name :
         {"bq", "bk", "grad_wq", "grad_wk", "sgd_m", "adam_m", "adam_v", "wk_skeleton"}) {
      if (bundle.has(name)) take(name);
    }
  }
  f64 = arguments.f64.value_or(input.any_float64);
}

bool PathTask::has_skeleton() const {
  if (verb == "step") return steps_in_paths(step.optimizer);
  return verb != "rescale";
}

Index PathTask::paths_asked() const {
  if (all_paths) return input.rows * input.rows * input.columns;
  return listed.empty() ? operand("path")->rows : static_cast<Index>(listed.size());
}

void PathTask::take_shape(const std::string& name, bool of_basis) {
  const ArraySource dataset = bundle.dataset(name);
  const char* const expected = of_basis ? "(..., 2 d1 - 1, d2)" : "(..., d1, d2)";
  require_vectors(dataset, expected);
  const Shape& shape = dataset.shape();
  if (element_count(shape) > most_weights) {
    throw Error(Failure::input, shape_text(dataset) + ", which is more than can be addressed");
  }
  input.leading = leading_axes(shape, 2);
  input.problems = element_count(input.leading);
  input.columns = shape.back();
  input.rows = shape[shape.size() - 2];
  if (!of_basis) return;
  if (input.rows % 2 == 0) {
    throw Error(Failure::input, shape_text(dataset) + ", expected " + expected);
  }
  input.rows = (input.rows + 1) / 2;
}

Shape PathTask::own_shape(const std::string& name) const {
  const Index basis = basis_rows(input.rows);
  if (is_vector(name)) return {input.columns};
  if (name == "basis_path") return {basis, input.columns, 3};
  if (name == "basis_value" || name == "si_sgd_m" || name == "si_adam_m" || name == "si_adam_v") {
    return {basis, input.columns};
  }
  if (name == "sgd_m" || name == "adam_m" || name == "adam_v")
    return {2 * input.rows, input.columns};
  return {input.rows, input.columns};
}

void PathTask::take(const std::string& name) {
  const ArraySource dataset = bundle.dataset(name);
  require_path_type(dataset, is_index(name) || name == "basis_path");
  const Shape own = own_shape(name);
  const Shape& shape = dataset.shape();
  const bool stretches = may_stretch(name) || name == "basis_path";
  const bool fits = shape.size() >= own.size() &&
                    join(leading_axes(shape, own.size()), own) == shape &&
                    (stretches || leading_axes(shape, own.size()) == input.leading);
  if (!fits) {
    const bool grouped =
        name == "wk" && shape.size() > 2 && shape.size() == input.leading.size() + 2;
    throw Error(Failure::input,
                shape_text(dataset) + ", expected " + to_string(join(input.leading, own)),
                grouped ? "grouped heads share wk: slice one head of each group" : "");
  }
  const Shape leading = leading_axes(shape, own.size());
  if (is_floating(dataset.dtype())) input.any_float64 |= dataset.dtype() == DType::f64;
  operands_.push_back({dataset, leading, own.size() > 1 ? own.front() : 1, own.back(),
                       LeadingMap(input.leading, leading, false, dataset.address())});
}

void PathTask::take_skeleton(const cli::Arguments& arguments) {
  const bool stored = bundle.has("skeleton_q");
  if (stored != bundle.has("skeleton_k")) {
    throw Error(Failure::input,
                fmt::format("{} has only skeleton_{}, expected also skeleton_{}",
                            bundle.description(), stored ? 'q' : 'k', stored ? 'k' : 'q'));
  }
  const bool chooses = arguments.given("skeleton");
  const bool across = arguments.given("across-heads");
  if (across && !(chooses && arguments.text("skeleton") == "cyclic")) {
    throw Error(Failure::usage, "--across-heads requires --skeleton cyclic");
  }
  if (verb == "reconstruct" || (stored && (verb == "step" || !chooses))) {
    rule = SkeletonRule::stored;
    take("skeleton_q");
    take("skeleton_k");
    return;
  }
  if (arguments.text("skeleton") == "largest") rule = SkeletonRule::largest;
  if (across) {
    if (input.leading.empty()) {
      throw Error(Failure::input, shape_text(bundle.dataset("wq")) +
                                      ", --across-heads expects heads, (..., H, d1, d2)");
    }
    rule = SkeletonRule::across_heads;
  }
  if (verb != "check") refuse_moments(bundle, stored, arguments);
}

void refuse_moments(const io::InputBundle& bundle, bool stored, const cli::Arguments& arguments) {
  for (const Optimizer optimizer : {Optimizer::si_adam, Optimizer::si_sgd}) {
    const std::string moments = state_name(optimizer, "m");
    if (!bundle.has(moments)) continue;
    throw Error(
        Failure::input,
        fmt::format("{} has {}, which belongs to a skeleton {}", bundle.description(), moments,
                    stored ? "that would be replaced" : "that is missing"),
        stored && !arguments.only ? "leave out its state, or --skeleton" : "leave out its state");
  }
}

void PathTask::take_paths(const cli::Arguments& arguments) {
  if (arguments.given("paths")) {
    all_paths = arguments.text("paths") == "all";
    if (!all_paths) listed = parse_paths(arguments.text("paths"), input);
    const std::optional<Index> every = path_count(input.rows, input.columns);
    if (all_paths && (!every || *every > most_weights / input.problems)) {
      throw Error(Failure::input, shape_text(bundle.dataset("basis_value")) +
                                      ", which has more paths than can be addressed");
    }
    return;
  }
  bundle.has("path") ? take_path_list() : take("wk_skeleton");
}

void PathTask::take_exponents(const cli::Arguments& arguments) {
  if (!arguments.given("paths")) {
    if (bundle.has("path")) take_path_list();
    return;
  }
  if (arguments.text("paths") == "all") {
    throw Error(Failure::usage, "identify has exponents of the paths of a list, not of all");
  }
  listed = parse_paths(arguments.text("paths"), input);
}

void PathTask::take_path_list() {
  const ArraySource dataset = bundle.dataset("path");
  require_path_type(dataset, true);
  const Shape& shape = dataset.shape();
  if (shape.size() < 2 || shape.back() != 3) {
    throw Error(Failure::input, shape_text(dataset) +
                                    ", expected (..., n, 3): row of wq, row of "
                                    "wk, column");
  }
  const Shape leading = leading_axes(shape, 2);
  operands_.push_back({dataset, leading, shape[shape.size() - 2], 3,
                       LeadingMap(input.leading, leading, false, dataset.address())});
}

void PathTask::report_params(cli::Report& report) const {
  auto& params = report.params();
  params["precision"] = f64 ? "f64" : "f32";
  if (has_skeleton()) params["skeleton"] = rule_name(rule);
}

std::string PathTask::shape_words() const {
  return times(join(input.leading, {input.rows, input.columns}));
}

std::vector<ArraySource> PathTask::datasets() const {
  std::vector<ArraySource> all;
  for (const Operand& used : operands_) all.push_back(used.dataset);
  return all;
}

const Operand* PathTask::operand(const std::string& name) const {
  const auto found = std::find_if(operands_.begin(), operands_.end(),
                                  [&](const Operand& used) { return used.dataset.name() == name; });
  return found == operands_.end() ? nullptr : &*found;
}

std::string PathTask::place(const std::string& name, Index problem) const {
  return problem_place(operand(name)->dataset.address(), input.leading, problem);
}

}  // namespace attn::tools
