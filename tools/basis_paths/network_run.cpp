#include "basis_paths/network_run.hpp"

#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/frame/bundles.hpp"

namespace attn::tools {
namespace {

// A network in a dataset whose axes after the leading ones are `own`.
PathBlock block_of_network(const Shape& position, const Shape& own) {
  return {join(position, Shape(own.size(), 0)), join(Shape(position.size(), 1), own)};
}

PathBlock block_of_operand(const Operand& operand, const Shape& own, Index problem) {
  return block_of_network(unravel(operand.block(problem), operand.leading), own);
}

}  // namespace

template <class T>
Buffer<T> NetworkReader::read(const std::string& name, Index problem) const {
  const Operand& operand = *task.operand(name);
  return read_finite<T>(operand.dataset, block_of_operand(operand, task.own_shape(name), problem));
}

std::vector<Index> NetworkReader::read_nodes(const std::string& name, Index problem) const {
  const Operand& operand = *task.operand(name);
  const PathBlock block = block_of_operand(operand, task.own_shape(name), problem);
  std::vector<Index> nodes(static_cast<std::size_t>(task.layers().hidden()));
  operand.dataset.read(block.start, block.count, nodes.data());
  const ReluLayers& layers = task.layers();
  for (Index l = 1; l < layers.count(); ++l) {
    const Index end = layers.size(name == "skeleton_in" ? l - 1 : l + 1);
    for (Index b = 0; b < layers.size(l); ++b) {
      const Index n = layers.hidden_node(l, b);
      const Index node = nodes[static_cast<std::size_t>(n)];
      if (node < 0 || node >= end) refuse_index(operand.dataset, block, n, node, "a node", end);
    }
  }
  return nodes;
}

template <class T>
ReluSkeleton NetworkReader::skeleton(Index problem, const ReluMatrices<const T>& weights) const {
  if (task.rule == SkeletonRule::stored) {
    return {read_nodes("skeleton_in", problem), read_nodes("skeleton_out", problem)};
  }
  if (task.rule == SkeletonRule::largest) return largest_skeleton(task.layers(), weights);
  return cyclic_skeleton(task.layers());
}

ReluSkeleton NetworkReader::read_skeleton(Index problem) const {
  if (task.rule != SkeletonRule::largest) return skeleton<float>(problem, {});
  if (task.f64) return skeleton(problem, NetworkMatrices<double>(*this, problem).views());
  return skeleton(problem, NetworkMatrices<float>(*this, problem).views());
}

template <class T>
void NetworkReader::require_skeleton(Index problem, const ReluSkeleton& skeleton,
                                     const ReluMatrices<const T>& weights) const {
  const auto zero = zero_in_skeleton(task.layers(), skeleton, weights);
  if (!zero) return;
  const Shape at = join(unravel(problem, task.input.leading), {zero->row, zero->col});
  throw Error(Failure::numerical,
              fmt::format("{} has 0 at [{}], a weight of the skeleton",
                          task.operand(NetworkTask::weights_name(zero->layer))->dataset.address(),
                          fmt::join(at, ", ")),
              task.rule == SkeletonRule::largest ? ""
              : task.rule == SkeletonRule::stored
                  ? "basis-paths identify --skeleton largest takes other weights"
                  : "--skeleton largest takes other weights");
}

NetworkRun::NetworkRun(const cli::Arguments& given, const NetworkTask& what,
                       io::OutputBundle output, Checkpoint* checkpoint, cli::Progress& progress,
                       cli::Report& to)
    : NetworkReader(given, what),
      PathWork(std::move(output), what.input, NetworkTask::unit, given.memory, checkpoint, progress,
               to) {}

void NetworkRun::create(const std::string& name, DType result_type) {
  const Shape own = task.own_shape(name);
  std::vector<std::string> labels = {"path", "layer"};
  if (own.size() == 1) labels.pop_back();
  if (name.starts_with("skeleton_")) labels = {"hidden node"};
  if (own.size() == 2 && name != "basis_path") labels = {"row", "column"};
  outputs.create(name, result_type, own, labels);
}

void NetworkRun::create_matrices(const std::string& prefix) {
  for (const std::string& name : task.weights_names(prefix)) create(name, type());
}

template <class T>
void NetworkRun::put_matrices(PathPart& part, const std::string& prefix, Index problem,
                              NetworkMatrices<T> matrices) const {
  for (Index l = 1; l <= task.layers().count(); ++l) {
    put(part, NetworkTask::weights_name(l, prefix), problem,
        std::move(matrices.numbers[static_cast<std::size_t>(l - 1)]));
  }
}

PathBlock NetworkRun::place(const std::string& name, Index problem) const {
  return block_of_network(unravel(problem, task.input.leading), task.own_shape(name));
}

PathBlock NetworkRun::stored_place(const std::string& name, Index problem) const {
  return block_of_network(outputs.position(problem), task.own_shape(name));
}

template <class T>
void NetworkRun::put(PathPart& part, const std::string& name, Index problem,
                     Buffer<T> values) const {
  require_within_range(name, place(name, problem), values.data());
  part.add(name, stored_place(name, problem), std::move(values));
}

void NetworkRun::create_skeleton() {
  create("skeleton_in", DType::i32);
  create("skeleton_out", DType::i32);
}

void NetworkRun::put_skeleton(PathPart& part, Index problem, const ReluSkeleton& skeleton) const {
  part.add("skeleton_in", stored_place("skeleton_in", problem), stored_indices(skeleton.in));
  part.add("skeleton_out", stored_place("skeleton_out", problem), stored_indices(skeleton.out));
}

void NetworkRun::write_sizes() {
  const std::vector<Index>& sizes = task.layers().sizes();
  write_once("layer_sizes", DType::i32, {std::ssize(sizes)}, sizes.data());
}

template Buffer<float> NetworkReader::read(const std::string&, Index) const;
template Buffer<double> NetworkReader::read(const std::string&, Index) const;
template ReluSkeleton NetworkReader::skeleton(Index, const ReluMatrices<const float>&) const;
template ReluSkeleton NetworkReader::skeleton(Index, const ReluMatrices<const double>&) const;
template void NetworkReader::require_skeleton(Index, const ReluSkeleton&,
                                              const ReluMatrices<const float>&) const;
template void NetworkReader::require_skeleton(Index, const ReluSkeleton&,
                                              const ReluMatrices<const double>&) const;
template void NetworkRun::put(PathPart&, const std::string&, Index, Buffer<float>) const;
template void NetworkRun::put(PathPart&, const std::string&, Index, Buffer<double>) const;
template void NetworkRun::put_matrices(PathPart&, const std::string&, Index,
                                       NetworkMatrices<float>) const;
template void NetworkRun::put_matrices(PathPart&, const std::string&, Index,
                                       NetworkMatrices<double>) const;

}  // namespace attn::tools
