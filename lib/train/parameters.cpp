#include "train/parameters.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tensor/buffer.hpp"
#include "tensor/random.hpp"

namespace attn::train {

Index Parameter::size() const {
  Index product = 1;
  for (const Index length : shape) product *= length;
  return product;
}

Index Parameters::add(Parameter parameter) {
  parameter.offset = size_;
  size_ += parameter.size();
  all_.push_back(std::move(parameter));
  return all_.back().offset;
}

MatrixPlace Parameters::add_matrix(const std::string& name, Index rows, Index cols,
                                   double deviation) {
  return {add({name, {rows, cols}, Initial::normal, deviation, true}), rows, cols};
}

MatrixPlace Parameters::add_table(const std::string& name, Index rows, Index cols,
                                  double deviation) {
  const MatrixPlace place = add_matrix(name, rows, cols, deviation);
  all_.back().by_rows = true;
  return place;
}

Index Parameters::add_vector(const std::string& name, Index length, double value) {
  return add({name, {length}, Initial::constant, value});
}

Index Parameters::add_normal(const std::string& name, const Shape& shape, double deviation) {
  return add({name, shape, Initial::normal, deviation, shape.size() > 1});
}

template <class T>
void Parameters::initialise(std::uint64_t seed, T* flat) const {
  for (const Parameter& one : all_) {
    T* const first = flat + one.offset;
    if (one.initial == Initial::constant) {
      std::fill_n(first, one.size(), static_cast<T>(one.value));
      continue;
    }
    Buffer<double> drawn(one.size());
    RandomStream(seed, one.name).normal(0, one.size(), drawn.data());
    std::transform(drawn.begin(), drawn.end(), first,
                   [&](double x) { return static_cast<T>(one.value * x); });
  }
}

template void Parameters::initialise(std::uint64_t, float*) const;
template void Parameters::initialise(std::uint64_t, double*) const;

}  // namespace attn::train
