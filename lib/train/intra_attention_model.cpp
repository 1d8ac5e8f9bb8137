#include "train/intra_attention_model.hpp"

#include <utility>

namespace attn::train {
namespace {

using mechanisms::Fusion;
using mechanisms::IntraAttention;

constexpr std::uint32_t place_of_states = 2;

MechanismLayer::Options cell_options(const MechanismOptions& options) {
  return {.f32 = IntraAttention::make<float>(Fusion::none),
          .f64 = IntraAttention::make<double>(Fusion::none),
          .sizes = {{"E", options.width}, {"D", options.width}, {"A", options.inner}},
          .absent = {},
          .deviation = options.deviation};
}

}  // namespace

IntraAttentionModel::IntraAttentionModel(const MechanismOptions& options)
    : MechanismModelOf("intra_attention/", options),
      cell_(parameters(), "intra_attention/", cell_options(options)),
      softmax_(parameters(), "intra_attention/", std::nullopt, options.vocabulary, options.width,
               deviation_of(options.vocabulary, options.width), options.smoothing) {}

template <class T>
Prediction IntraAttentionModel::run(const Pass<T>& pass) const {
  const Sequences inputs = pass.batch.input.view();
  const OwnedMatrix<T> x = input_vectors(pass);
  mechanisms::Batch<T> batch = cell_.batch(pass.slot, inputs.count);
  batch.sizes["T"] = inputs.length;
  batch.inputs[IntraAttention::x] = sequence_tensor(x, inputs);
  batch.lengths[0] = lengths_of(inputs);
  OwnedMatrix<T> h(inputs.rows(), options().width);
  mechanisms::Tensors<T> results(cell_.form().results.size());
  results[IntraAttention::h] = sequence_tensor(h, inputs);
  cell_.forward(batch, results);
  pass.slot.dropout.apply(h, place_of_states);

  OwnedMatrix<T> dh =
      pass.differentiates() ? OwnedMatrix<T>::zeros(h.rows(), h.cols()) : OwnedMatrix<T>();
  const Prediction found = softmax_.forward(pass.slot, std::as_const(h).view(), pass.batch.targets,
                                            pass.factor, dh.view());
  if (!pass.differentiates()) return found;

  pass.slot.dropout.apply(dh, place_of_states);
  mechanisms::Tensors<const T> upstream(results.size());
  upstream[IntraAttention::h] = sequence_tensor(std::as_const(dh), inputs);
  OwnedMatrix<T> dx(x.rows(), x.cols());
  mechanisms::Tensors<T> gradients(batch.inputs.size());
  gradients[IntraAttention::x] = sequence_tensor(dx, inputs);
  cell_.backward(pass.slot, batch, upstream, gradients);
  finish_input(pass, dx);
  return found;
}

template <class T>
PassBytes IntraAttentionModel::layer_bytes(const Sequences&, const Sequences& input) const {
  PassBytes layers =
      cell_.bytes<T>({{"T", input.length}}, input.count).then(softmax_.bytes<T>(input.rows()));
  const std::int64_t states = row_bytes<T>(input.rows(), options().width);
  layers.kept += states;
  layers.backward += 2 * states;
  return layers;
}

#define ATTN_INTRA_ATTENTION_MODEL(T)                                 \
  template Prediction IntraAttentionModel::run(const Pass<T>&) const; \
  template PassBytes IntraAttentionModel::layer_bytes<T>(const Sequences&, const Sequences&) const;
ATTN_INTRA_ATTENTION_MODEL(float)
ATTN_INTRA_ATTENTION_MODEL(double)
#undef ATTN_INTRA_ATTENTION_MODEL

}  // namespace attn::train
