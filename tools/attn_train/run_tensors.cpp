#include "attn_train/run_tensors.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "scheme/scheme_description.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {
namespace {

using train::MatrixPlace;
using train::Parameter;

enum class Stored { plain, projection, joining };

// The form of a tensor in a checkpoint, and its attention.
struct Form {
  Stored stored = Stored::plain;
  Index heads = 1;
};

bool is_at(const Parameter& one, const MatrixPlace& place) { return one.offset == place.offset; }

Form form_of(const Parameter& one, const std::vector<AttentionGroup>& attentions) {
  for (const AttentionGroup& group : attentions) {
    const Index heads = group.heads->options().heads;
    for (const MatrixPlace& place : group.projections) {
      if (is_at(one, place)) return {Stored::projection, heads};
    }
    if (group.joining && is_at(one, *group.joining)) return {Stored::joining, heads};
  }
  return {};
}

Shape stored_shape(const Parameter& one, const Form& form) {
  if (form.stored == Stored::projection) {
    return {form.heads, one.shape[1], one.shape[0] / form.heads};
  }
  if (form.stored == Stored::joining) return {one.shape[1], one.shape[0]};
  return one.shape;
}

std::vector<std::string> labels_of(const Form& form) {
  if (form.stored == Stored::projection) return {"head", "channel", "depth"};
  if (form.stored == Stored::joining) return {"head x depth", "channel"};
  return {};
}

// Calls body(number of the tensor in the model, number in the checkpoint).
template <class Body>
void for_each_number(const Parameter& one, const Form& form, const Body& body) {
  if (form.stored == Stored::plain) {
    for (Index n = 0; n < one.size(); ++n) body(n, n);
    return;
  }
  const Index rows = one.shape[0];
  const Index cols = one.shape[1];
  const Index depth = form.stored == Stored::projection ? rows / form.heads : rows;
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < cols; ++c) {
      body(r * cols + c, ((r / depth) * cols + c) * depth + r % depth);
    }
  }
}

std::string scheme_word(const train::AttentionScheme& scheme) {
  return scheme.em ? "em" : std::string(description_of(scheme.scheme).name());
}

template <class T>
void write_attention(const AttentionGroup& attention, const T* weights, io::OutputBundle& bundle) {
  const train::HeadAttentionOptions& options = attention.heads->options();
  io::OutputBundle group = bundle.group(attention.name);
  group.attribute("attn_causal", std::string(options.causal ? "top-left" : "none"));
  group.attribute("train_scheme", scheme_word(options.scheme));
  if (options.scheme.scheme == Scheme::sinkhorn) {
    group.attribute("train_iterations", std::int64_t{options.scheme.iterations});
  }
  if (options.scheme.is_transport()) {
    group.attribute("train_gamma", options.scheme.gamma);
    group.attribute("train_reach", options.scheme.reach);
  }
  const std::vector<double> shares = attention.heads->shares(weights);
  if (shares.empty()) return;
  const Shape shape = options.scheme.share_by_head ? Shape{options.heads} : Shape{};
  group.create("hybrid", DType::f64, shape).write(Shape(shape.size(), 0), shape, shares.data());
}

}  // namespace

template <class T>
void write_tensors(const Task<T>& task, const T* weights, CheckedOutput& output) {
  const std::vector<AttentionGroup> attentions = task.attentions();
  for (const AttentionGroup& attention : attentions) {
    write_attention(attention, weights, output.bundle());
  }
  for (const Parameter& one : task.parameters().all()) {
    const Form form = form_of(one, attentions);
    const Shape shape = stored_shape(one, form);
    const Buffer<T> numbers(one.size());
    for_each_number(one, form, [&](Index in_model, Index stored) {
      numbers.data()[stored] = weights[one.offset + in_model];
    });
    output.write(one.name, shape, numbers.data(), labels_of(form));
  }
}

template <class T>
bool has_tensor(const Task<T>& task, const Parameter& one, const io::InputBundle& bundle,
                const std::string& name) {
  if (!bundle.is_dataset(name)) return false;
  const ArraySource dataset = bundle.dataset(name);
  return is_floating(dataset.dtype()) &&
         dataset.shape() == stored_shape(one, form_of(one, task.attentions()));
}

template <class T>
void read_tensors(const Task<T>& task, const io::InputBundle& bundle, T* weights,
                  const TensorName& name_of) {
  const std::vector<AttentionGroup> attentions = task.attentions();
  for (const Parameter& one : task.parameters().all()) {
    const std::string name = name_of(one);
    if (name.empty()) continue;
    const Form form = form_of(one, attentions);
    const Shape shape = stored_shape(one, form);
    const ArraySource dataset = bundle.dataset(name);
    if (dataset.shape() != shape || !is_floating(dataset.dtype())) {
      throw Error(Failure::input, dataset.address() + " is not that of this model");
    }
    Buffer<T> numbers(one.size());
    dataset.read(Shape(shape.size(), 0), shape, numbers.data());
    if (!std::all_of(numbers.begin(), numbers.end(), [](T x) { return std::isfinite(x); })) {
      throw Error(Failure::input, fmt::format("{} has a number that is not finite in {}",
                                              dataset.address(), attn::name(dtype_of<T>())));
    }
    for_each_number(one, form, [&](Index in_model, Index stored) {
      weights[one.offset + in_model] = numbers.data()[stored];
    });
  }
}

#define ATTN_RUN_TENSORS(T)                                                          \
  template void write_tensors(const Task<T>&, const T*, CheckedOutput&);             \
  template bool has_tensor(const Task<T>&, const Parameter&, const io::InputBundle&, \
                           const std::string&);                                      \
  template void read_tensors(const Task<T>&, const io::InputBundle&, T*, const TensorName&);
ATTN_RUN_TENSORS(float)
ATTN_RUN_TENSORS(double)
#undef ATTN_RUN_TENSORS

}  // namespace attn::tools
