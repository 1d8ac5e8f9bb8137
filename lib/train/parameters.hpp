#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/view.hpp"

namespace attn::train {

/// How a tensor starts.
enum class Initial {
  constant,  ///< all numbers are `value`
  normal,    ///< normal, of mean 0 and standard deviation `value`
};

/// A tensor of a model.
struct Parameter {
  std::string name;  ///< as in a checkpoint: "layer0/wq"
  Shape shape;
  Initial initial = Initial::constant;
  double value = 0;
  bool decays = false;  ///< weight decay applies: to matrices, neither to biases nor to norms
  /// The gradient is a sum over few of the tensor's rows, which layers return instead of writing
  /// it.
  bool by_rows = false;
  Index offset = 0;  ///< of its first number in the flat array

  Index size() const;
};

/// The place of a matrix in the flat array of all parameters.
struct MatrixPlace {
  Index offset = 0;
  Index rows = 0;
  Index cols = 0;

  template <class T>
  MatrixView<T> in(T* flat) const {
    return {flat + offset, rows, cols};
  }
};

/// All tensors of a model, one after the other in one flat array. Weights, gradients and the
/// moments of an optimiser each are such an array.
class Parameters {
 public:
  /// Adds a matrix (rows, cols), row-major, with weight decay.
  MatrixPlace add_matrix(const std::string& name, Index rows, Index cols, double deviation);

  /// Adds a matrix of which a pass uses few rows: see Parameter::by_rows.
  MatrixPlace add_table(const std::string& name, Index rows, Index cols, double deviation);

  /// Adds a vector of equal numbers, without weight decay. Returns its offset.
  Index add_vector(const std::string& name, Index length, double value);

  /// Adds a tensor of normal numbers, with weight decay if it has more than one axis. Returns its
  /// offset.
  Index add_normal(const std::string& name, const Shape& shape, double deviation);

  const std::vector<Parameter>& all() const { return all_; }

  /// The size of the flat array.
  Index size() const { return size_; }

  /// Writes the initial numbers of every tensor. Normal numbers come from RandomStream(seed, name),
  /// so that a tensor's start depends only on seed, name and size.
  template <class T>
  void initialise(std::uint64_t seed, T* flat) const;

 private:
  Index add(Parameter parameter);

  std::vector<Parameter> all_;
  Index size_ = 0;
};

}  // namespace attn::train
