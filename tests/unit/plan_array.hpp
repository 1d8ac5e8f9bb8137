#pragma once

// Arrays in memory, for plans of the public library.

#include <random>
#include <thread>
#include <vector>

#include "attnkit/tensor.hpp"
#include "random_problem.hpp"
#include "tensor/batch.hpp"
#include "tensor/view.hpp"

namespace attn::testing {

template <class T>
struct Array {
  Shape shape;
  std::vector<T> values;

  Array() = default;
  explicit Array(const Shape& lengths, T value = T{})
      : shape(lengths), values(static_cast<std::size_t>(element_count(shape)), value) {}

  TensorView<T> view() { return {values.data(), shape}; }
  TensorView<const T> view() const { return {values.data(), shape}; }

  /// The block that a problem of these leading axes uses. A block has `trailing` axes.
  const T* block(Index problem, const Shape& leading, std::size_t trailing) const {
    const LeadingMap map(leading, leading_axes(shape, trailing), false, "array");
    Index size = 1;
    for (std::size_t n = shape.size() - trailing; n < shape.size(); ++n) size *= shape[n];
    return values.data() + map(problem) * size;
  }
  MatrixView<const T> matrix(Index problem, const Shape& leading) const {
    return {block(problem, leading, 2), shape[shape.size() - 2], shape.back()};
  }
};

template <class T>
Array<T> normal_array(const Shape& shape, Random& random, double spread = 1) {
  Array<T> array(shape);
  std::normal_distribution<double> normal(0, spread);
  for (T& value : array.values) value = static_cast<T>(normal(random));
  return array;
}

/// Runs both functions at the same time.
template <class First, class Second>
void at_the_same_time(const First& first, const Second& second) {
  std::thread other(first);
  second();
  other.join();
}

}  // namespace attn::testing
