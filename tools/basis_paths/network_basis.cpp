// The verbs identify and values of basis-paths --network relu.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "basis_paths/network_verbs.hpp"
#include "cli/words.hpp"
#include "common/costs/block_plan.hpp"

namespace attn::tools {
namespace {

void require_int32_nodes(const NetworkTask& task) {
  const std::vector<Index>& sizes = task.layers().sizes();
  const Index most = *std::max_element(sizes.begin(), sizes.end());
  if (most <= std::numeric_limits<std::int32_t>::max()) return;
  throw Error(Failure::input, fmt::format("{} has a layer of {} nodes, beyond indices of int32",
                                          task.datasets().front().address(), most));
}

void make_network_paths(NetworkRun& run, Index problem, OnFirstUse<ReluSkeleton>& skeleton) {
  const Index nodes = run.task.layers().count() + 1;
  const std::int64_t path_bytes = nodes * static_cast<std::int64_t>(sizeof(std::int32_t));
  const Index rank = run.task.layers().rank();
  const Index most =
      plan_blocks("one path of " + cli::counted(nodes, "node"),
                  plan_network(run.arguments, run.task), path_bytes, rank, run.arguments.memory)
          .rows;
  const Shape position = run.outputs.position(problem);
  run.in_parts(rank, most, [&](Index first, Index count, PathPart& part) {
    const ReluBasis basis(run.task.layers(), skeleton.get());
    Buffer<std::int32_t> block(count * nodes);
    run.report.compute([&] { basis.paths(first, count, block.data(), run.arguments.threads); });
    part.add("basis_path",
             {join(position, {first, 0}), join(Shape(position.size(), 1), {count, nodes})},
             std::move(block));
  });
}

// The skeleton's weights into the hidden nodes.
template <class T>
Buffer<T> weights_into_nodes(const ReluLayers& layers, const ReluSkeleton& skeleton,
                             const ReluMatrices<const T>& weights) {
  Buffer<T> into(layers.hidden());
  for (Index l = 1; l < layers.count(); ++l) {
    for (Index b = 0; b < layers.size(l); ++b) {
      const Index n = layers.hidden_node(l, b);
      into[n] = weights[static_cast<std::size_t>(l - 1)](skeleton.in_of(n), b);
    }
  }
  return into;
}

// Whether the path's own weight is 0; weights of the skeleton are not.
template <class T>
bool has_zero(const ReluBasis& basis, const ReluMatrices<const T>& weights, Index number) {
  std::vector<Index> nodes(basis.layers().sizes().size());
  basis.path(number, nodes.data());
  for (std::size_t l = 0; l < weights.size(); ++l) {
    if (weights[l](nodes[l], nodes[l + 1]) == 0) return true;
  }
  return false;
}

template <class T>
void find_network_values(NetworkRun& run, Index problem, PathPart& part) {
  const ReluLayers& layers = run.task.layers();
  const NetworkMatrices<T> weights(run, problem);
  const ReluSkeleton skeleton = run.skeleton(problem, weights.views());
  run.require_skeleton(problem, skeleton, weights.views());
  const ReluBasis basis(layers, skeleton);
  Buffer<T> values(layers.rank());
  run.report.compute(
      [&] { basis_values(basis, weights.views(), values.data(), run.arguments.threads); });
  require_normal("basis_value", run.place("basis_value", problem), values,
                 [&](Index n) { return has_zero(basis, weights.views(), n); });
  run.put_skeleton(part, problem, skeleton);
  run.put(part, "basis_value", problem, std::move(values));
  run.put(part, "skeleton_weight", problem, weights_into_nodes(layers, skeleton, weights.views()));
}

std::string basis_text(NetworkRun& run, const char* of) {
  const Index paths = run.task.layers().rank();
  run.report.result()["basis_paths"] = paths;
  return fmt::format("{}{} a network, skeleton {}", of, cli::counted(paths, "basis path"),
                     rule_name(run.task.rule));
}

}  // namespace

std::string identify_paths(NetworkRun& run) {
  require_int32_nodes(run.task);
  plan_network(run.arguments, run.task);
  run.create_skeleton();
  run.create("basis_path", DType::i32);
  run.write_sizes();
  run.for_each_problem([&](Index problem) {
    OnFirstUse<ReluSkeleton> skeleton([&] { return run.read_skeleton(problem); });
    run.in_parts(1, 1, [&](Index, Index, PathPart& part) {
      run.put_skeleton(part, problem, skeleton.get());
    });
    make_network_paths(run, problem, skeleton);
  });
  return basis_text(run, "");
}

std::string find_path_values(NetworkRun& run) {
  require_int32_nodes(run.task);
  plan_network(run.arguments, run.task);
  run.create_skeleton();
  run.create("basis_value", run.type());
  run.create("skeleton_weight", run.type());
  run.write_sizes();
  run.for_each_problem([&](Index problem) {
    run.in_parts(1, 1, [&](Index, Index, PathPart& part) {
      run.task.f64 ? find_network_values<double>(run, problem, part)
                   : find_network_values<float>(run, problem, part);
    });
  });
  return basis_text(run, "values of ");
}

}  // namespace attn::tools
