#include "train/mechanism_layer.hpp"

#include <stdexcept>
#include <utility>

#include "train/start_deviation.hpp"

namespace attn::train {
namespace {

using mechanisms::TensorForm;

bool is_bias(const TensorForm& input, const Shape& shape) {
  return input.optional && shape.size() == 1;
}

}  // namespace

MechanismLayer::MechanismLayer(Parameters& parameters, const std::string& prefix,
                               const Options& options)
    : options_(options) {
  for (std::size_t n = 0; n < form().inputs.size(); ++n) {
    const TensorForm& input = form().inputs[n];
    if (input.kind != TensorForm::Kind::shared || options.absent.count(input.name) > 0) continue;
    const Shape shape = mechanisms::shape_of(input.axes, options.sizes);
    const std::string name = prefix + input.name;
    const double deviation =
        start_deviation(options.deviation, shape.size() > 1 ? shape[0] : 1, shape.back());
    const Index offset = is_bias(input, shape) ? parameters.add_vector(name, shape[0], 0)
                                               : parameters.add_normal(name, shape, deviation);
    weights_.push_back({n, shape, offset});
  }
}

template <>
const mechanisms::Mechanism<float>& MechanismLayer::mechanism<float>() const {
  return *options_.f32;
}
template <>
const mechanisms::Mechanism<double>& MechanismLayer::mechanism<double>() const {
  return *options_.f64;
}

template <class T>
mechanisms::Batch<T> MechanismLayer::batch(const Slot<T>& slot, Index count) const {
  mechanisms::Batch<T> made;
  made.count = count;
  made.sizes = options_.sizes;
  made.inputs.resize(form().inputs.size());
  made.tokens.resize(form().tokens.size());
  made.lengths.resize(form().lengths.size());
  for (const Weight& one : weights_) {
    made.inputs[one.input] = {slot.weights + one.offset, one.shape};
  }
  return made;
}

template <class T>
void MechanismLayer::forward(const mechanisms::Batch<T>& batch,
                             const mechanisms::Tensors<T>& results) const {
  mechanisms::forward(mechanism<T>(), batch, results, 1);
}

template <class T>
void MechanismLayer::backward(const Slot<T>& slot, const mechanisms::Batch<T>& batch,
                              const mechanisms::Tensors<const T>& grad_results,
                              mechanisms::Tensors<T> gradients) const {
  for (const Weight& one : weights_) {
    gradients[one.input] = {slot.gradients + one.offset, one.shape};
  }
  mechanisms::backward(mechanism<T>(), batch, grad_results, gradients, 1);
}

template <class T>
PassBytes MechanismLayer::bytes(const mechanisms::Sizes& sizes, Index count) const {
  mechanisms::Sizes all = options_.sizes;
  all.insert(sizes.begin(), sizes.end());
  std::vector<bool> results;
  for (const TensorForm& result : form().results) results.push_back(result.by_default);
  return {0, mechanisms::batch_bytes(mechanism<T>(), all, results, count, false, 1),
          mechanisms::batch_bytes(mechanism<T>(), all, results, count, true, 1)};
}

MatrixPlace MechanismLayer::weight(std::size_t input) const {
  for (const Weight& one : weights_) {
    if (one.input != input) continue;
    return {one.offset, one.shape.size() > 1 ? one.shape[0] : 1, one.shape.back()};
  }
  throw std::logic_error("the layer has no such weight");
}

#define ATTN_MECHANISM_LAYER(T)                                                       \
  template mechanisms::Batch<T> MechanismLayer::batch(const Slot<T>&, Index) const;   \
  template void MechanismLayer::forward(const mechanisms::Batch<T>&,                  \
                                        const mechanisms::Tensors<T>&) const;         \
  template void MechanismLayer::backward(const Slot<T>&, const mechanisms::Batch<T>&, \
                                         const mechanisms::Tensors<const T>&,         \
                                         mechanisms::Tensors<T>) const;               \
  template PassBytes MechanismLayer::bytes<T>(const mechanisms::Sizes&, Index) const;
ATTN_MECHANISM_LAYER(float)
ATTN_MECHANISM_LAYER(double)
#undef ATTN_MECHANISM_LAYER

}  // namespace attn::train
