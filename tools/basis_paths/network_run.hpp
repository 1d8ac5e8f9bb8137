#pragma once

#include <functional>
#include <string>
#include <vector>

#include "basis_paths/network_task.hpp"
#include "basis_paths/path_parts.hpp"

namespace attn::tools {

/// Reads one section, one network at a time.
class NetworkReader {
 public:
  /// The arguments and the task must outlive the object.
  NetworkReader(const cli::Arguments& given, const NetworkTask& what)
      : arguments(given), task(what) {}

  const cli::Arguments& arguments;
  const NetworkTask& task;

  /// All of an operand's block for a network. Throws Error(input) naming an element that is not
  /// finite.
  template <class T>
  Buffer<T> read(const std::string& name, Index problem) const;

  /// The skeleton of a network, stored or by rule; only `largest` needs the weights.
  template <class T>
  ReluSkeleton skeleton(Index problem, const ReluMatrices<const T>& weights) const;

  /// The same, with the weights read if needed.
  ReluSkeleton read_skeleton(Index problem) const;

  /// Throws Error(numerical) naming a weight of the skeleton that is 0.
  template <class T>
  void require_skeleton(Index problem, const ReluSkeleton& skeleton,
                        const ReluMatrices<const T>& weights) const;

 private:
  std::vector<Index> read_nodes(const std::string& name, Index problem) const;
};

/// The matrices of a network, or their gradients.
template <class T>
struct NetworkMatrices {
  std::vector<Buffer<T>> numbers;
  ReluMatrices<T> matrices;

  /// Makes matrices of unspecified numbers.
  explicit NetworkMatrices(const ReluLayers& layers) {
    for (Index l = 1; l <= layers.count(); ++l) {
      add(Buffer<T>(layers.size(l - 1) * layers.size(l)), layers, l);
    }
  }

  NetworkMatrices(const NetworkReader& reader, Index problem, const std::string& prefix = "w") {
    const ReluLayers& layers = reader.task.layers();
    for (Index l = 1; l <= layers.count(); ++l) {
      add(reader.read<T>(NetworkTask::weights_name(l, prefix), problem), layers, l);
    }
  }

  ReluMatrices<const T> views() const { return {matrices.begin(), matrices.end()}; }

 private:
  void add(Buffer<T> values, const ReluLayers& layers, Index layer) {
    numbers.push_back(std::move(values));
    matrices.emplace_back(numbers.back().data(), layers.size(layer - 1), layers.size(layer));
  }
};

/// A NetworkReader with an output.
class NetworkRun : public NetworkReader, public PathWork {
 public:
  /// Checkpoint, progress and report must outlive the object, too.
  NetworkRun(const cli::Arguments& given, const NetworkTask& what, io::OutputBundle output,
             Checkpoint* checkpoint, cli::Progress& progress, cli::Report& to);

  DType type() const { return task.f64 ? DType::f64 : DType::f32; }

  /// Creates a result with the task's own_shape.
  void create(const std::string& name, DType type);

  /// Creates all matrices of weights or gradients; adds the matrices of a network to a part.
  void create_matrices(const std::string& prefix);
  template <class T>
  void put_matrices(PathPart& part, const std::string& prefix, Index problem,
                    NetworkMatrices<T> matrices) const;

  /// The place of a network in a whole result.
  PathBlock place(const std::string& name, Index problem) const;

  /// Adds a result of a network to a part. Throws Error(numerical) if a number is not finite.
  template <class T>
  void put(PathPart& part, const std::string& name, Index problem, Buffer<T> values) const;

  void create_skeleton();
  void put_skeleton(PathPart& part, Index problem, const ReluSkeleton& skeleton) const;

  /// Writes the sizes of the layers, which reconstruct needs.
  void write_sizes();

 private:
  PathBlock stored_place(const std::string& name, Index problem) const;
};

}  // namespace attn::tools
