#pragma once

#include <functional>
#include <string>
#include <vector>

#include "basis_paths/network_task.hpp"
#include "basis_paths/path_numbers.hpp"
#include "cli/progress.hpp"
#include "common/head_outputs.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// Reads one section, one network at a time.
class NetworkReader {
 public:
  /// The arguments and the task must outlive it.
  NetworkReader(const cli::Arguments& given, const NetworkTask& what)
      : arguments(given), task(what) {}

  const cli::Arguments& arguments;
  const NetworkTask& task;

  /// All of an operand's block for a network. Throws Error(input) naming an element that is not
  /// finite.
  template <class T>
  Buffer<T> read(const std::string& name, Index problem) const;

  /// The skeleton of a network: the stored one, or that of its weights, which only `largest` needs.
  template <class T>
  ReluSkeleton skeleton(Index problem, const ReluMatrices<const T>& weights) const;

  /// The same, with the weights read if they are needed.
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

  /// Of unspecified numbers.
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
class NetworkRun : public NetworkReader {
 public:
  /// Progress and report must outlive it, too.
  NetworkRun(const cli::Arguments& given, const NetworkTask& what, io::OutputBundle output,
             cli::Progress& progress, cli::Report& to);

  io::OutputBundle bundle;
  HeadOutputs outputs;
  cli::Report& report;

  DType type() const { return task.f64 ? DType::f64 : DType::f32; }

  /// Creates a result with the task's own_shape.
  void create(const std::string& name, DType type);

  /// Creates all matrices of weights or gradients; writes those of a network.
  void create_matrices(const std::string& prefix);
  template <class T>
  void write_matrices(const std::string& prefix, Index problem, const NetworkMatrices<T>& matrices);

  /// Calls `body` for every network in turn.
  void for_each_network(const std::function<void(Index problem)>& body);

  /// The place of a network in a whole result.
  PathBlock place(const std::string& name, Index problem) const;

  /// Writes an existing result of a network. Throws Error(numerical) if a number is not finite.
  template <class T>
  void write(const std::string& name, Index problem, const T* values);

  void create_skeleton();
  void write_skeleton(Index problem, const ReluSkeleton& skeleton);

  /// Writes the sizes of the layers, which reconstruct needs.
  void write_sizes();

 private:
  cli::Progress& progress_;
};

}  // namespace attn::tools
