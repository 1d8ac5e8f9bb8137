#include "train/structured_model.hpp"

#include <algorithm>
#include <utility>

namespace attn::train {
namespace {

using mechanisms::Structured;

constexpr std::uint32_t place_of_means = 2;

}  // namespace

StructuredModel::StructuredModel(const StructuredModelOptions& options)
    : MechanismModelOf("structured/", options.model),
      hops_(options.hops),
      penalty_(options.penalty),
      encoder_(parameters(), "structured/encoder/", options.model.network(true)),
      attention_(parameters(), "structured/",
                 MechanismLayer::of<Structured>(
                     {{"D", encoder_.outputs()}, {"A", options.model.inner}, {"R", options.hops}},
                     options.model.deviation)),
      softmax_(parameters(), "structured/", std::nullopt, options.model.classes,
               options.hops * encoder_.outputs(),
               deviation_of(options.model.classes, options.hops * encoder_.outputs()),
               options.model.smoothing) {}

template <class T>
Prediction StructuredModel::run(const Pass<T>& pass) const {
  const Sequences inputs = pass.batch.input.view();
  const Index count = inputs.count;
  const OwnedMatrix<T> x = input_vectors(pass);
  RecurrentLayer::Kept<T> kept;
  const OwnedMatrix<T> h = encoder_.forward(pass.slot, inputs, x.view(), kept);

  mechanisms::Batch<T> batch = attention_.batch(pass.slot, count);
  batch.sizes["T"] = inputs.length;
  batch.inputs[Structured::x] = sequence_tensor(h, inputs);
  batch.lengths[0] = lengths_of(inputs);
  OwnedMatrix<T> means(count, hops_ * h.cols());
  OwnedMatrix<T> shown(3, count);  // penalty, diagonal, off_diagonal
  mechanisms::Tensors<T> results(attention_.form().results.size());
  results[Structured::out] = {means.data(), {count, hops_, h.cols()}};
  results[Structured::penalty] = {shown.view().row(0), {count}};
  results[Structured::diagonal] = {shown.view().row(1), {count}};
  results[Structured::off_diagonal] = {shown.view().row(2), {count}};
  attention_.forward(batch, results);
  pass.slot.dropout.apply(means, place_of_means);

  OwnedMatrix<T> dmeans =
      pass.differentiates() ? OwnedMatrix<T>::zeros(count, means.cols()) : OwnedMatrix<T>();
  Prediction found = softmax_.forward(pass.slot, std::as_const(means).view(), pass.batch.targets,
                                      pass.factor, dmeans.view());
  for (Index n = 0; n < count; ++n) {
    found.smoothed += penalty_ * static_cast<double>(shown.view()(0, n));
    if (pass.figures == nullptr) continue;
    (*pass.figures)["diagonal"].add(static_cast<double>(shown.view()(1, n)));
    (*pass.figures)["off_diagonal"].add(static_cast<double>(shown.view()(2, n)));
  }
  if (!pass.differentiates()) return found;

  pass.slot.dropout.apply(dmeans, place_of_means);
  OwnedMatrix<T> dpenalty(1, count);
  std::fill_n(dpenalty.data(), count, static_cast<T>(pass.factor * penalty_));
  mechanisms::Tensors<const T> upstream(results.size());
  upstream[Structured::out] = {dmeans.data(), results[Structured::out].shape};
  upstream[Structured::penalty] = {dpenalty.data(), {count}};
  OwnedMatrix<T> dh(h.rows(), h.cols());
  mechanisms::Tensors<T> gradients(batch.inputs.size());
  gradients[Structured::x] = sequence_tensor(dh, inputs);
  attention_.backward(pass.slot, batch, upstream, gradients);
  OwnedMatrix<T> dx = OwnedMatrix<T>::zeros(x.rows(), x.cols());
  encoder_.backward(pass.slot, inputs, x.view(), kept, std::as_const(dh).view(), dx.view());
  finish_input(pass, dx);
  return found;
}

template <class T>
PassBytes StructuredModel::layer_bytes(const Sequences&, const Sequences& input) const {
  const Index outputs = encoder_.outputs();
  const PassBytes layers = encoder_.bytes<T>(input)
                               .then(attention_.bytes<T>({{"T", input.length}}, input.count))
                               .then(softmax_.bytes<T>(input.count));
  const std::int64_t states = row_bytes<T>(input.rows(), outputs);
  const std::int64_t means = row_bytes<T>(input.count, hops_ * outputs);
  return {layers.kept + states + means, layers.forward,
          layers.backward + states + means + row_bytes<T>(input.rows(), options().width)};
}

#define ATTN_STRUCTURED_MODEL(T)                                  \
  template Prediction StructuredModel::run(const Pass<T>&) const; \
  template PassBytes StructuredModel::layer_bytes<T>(const Sequences&, const Sequences&) const;
ATTN_STRUCTURED_MODEL(float)
ATTN_STRUCTURED_MODEL(double)
#undef ATTN_STRUCTURED_MODEL

}  // namespace attn::train
