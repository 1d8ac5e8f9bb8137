#include "train/alignment_direction.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "train/start_deviation.hpp"

namespace attn::train {
namespace {

using mechanisms::Alignment;

std::set<std::string> absent_terms(const AlignmentTerms& terms) {
  std::set<std::string> absent;
  if (!terms.position) absent.insert("w_position");
  if (terms.reach == 0) absent.insert("w_previous");
  return absent;
}

}  // namespace

AlignmentDirection::AlignmentDirection(Parameters& parameters, const std::string& prefix,
                                       const MechanismOptions& options, Index vocabulary,
                                       const AlignmentTerms& terms, std::uint32_t place)
    : encoder_(parameters, prefix + "encoder/", options.network(true)),
      decoder_(parameters, prefix + "decoder/", options.network(false)),
      attention_(parameters, prefix,
                 MechanismLayer::of<Alignment>({{"S", encoder_.outputs()},
                                                {"G", decoder_.outputs()},
                                                {"A", options.inner},
                                                {"K", terms.reach}},
                                               options.deviation, absent_terms(terms))),
      softmax_(parameters, prefix, std::nullopt, vocabulary, feature_width(),
               start_deviation(options.deviation, vocabulary, feature_width()), options.smoothing),
      place_(place) {}

template <class T>
mechanisms::Batch<T> AlignmentDirection::batch_of(const Slot<T>& slot, const Side<T>& source,
                                                  const Side<T>& input,
                                                  const Passed<T>& passed) const {
  mechanisms::Batch<T> batch = attention_.batch(slot, input.sequences.count);
  batch.sizes["I"] = source.sequences.length;
  batch.sizes["J"] = input.sequences.length;
  batch.inputs[Alignment::source] = sequence_tensor(passed.encodings, source.sequences);
  batch.inputs[Alignment::target] = sequence_tensor(passed.states, input.sequences);
  batch.lengths = {lengths_of(source.sequences), lengths_of(input.sequences)};
  return batch;
}

template <class T>
void AlignmentDirection::forward(const Slot<T>& slot, const Side<T>& source, const Side<T>& input,
                                 bool with_weights, Passed<T>& passed) const {
  passed.encodings = encoder_.forward(slot, source.sequences, source.vectors, passed.encoder);
  passed.states = decoder_.forward(slot, input.sequences, input.vectors, passed.decoder);
  const mechanisms::Batch<T> batch = batch_of(slot, source, input, passed);
  const Index rows = input.sequences.rows();
  OwnedMatrix<T> context(rows, encoder_.outputs());
  mechanisms::Tensors<T> results(attention_.form().results.size());
  results[Alignment::context] = sequence_tensor(context, input.sequences);
  if (with_weights) {
    const Index count = input.sequences.count;
    const Index targets = input.sequences.length;
    const Index sources = source.sequences.length;
    passed.weights = OwnedMatrix<T>(count, targets * sources);
    results[Alignment::weights] = {passed.weights.data(), {count, targets, sources}};
  }
  attention_.forward(batch, results);
  passed.features = OwnedMatrix<T>(rows, feature_width());
  for (Index row = 0; row < rows; ++row) {
    T* const features = passed.features.view().row(row);
    std::copy_n(passed.states.view().row(row), passed.states.cols(), features);
    std::copy_n(context.view().row(row), context.cols(), features + passed.states.cols());
  }
  slot.dropout.apply(passed.features, place_);
}

template <class T>
Prediction AlignmentDirection::predict(const Slot<T>& slot, const Passed<T>& passed,
                                       const Targets& targets, double factor,
                                       MatrixView<T> dfeatures) const {
  return softmax_.forward(slot, passed.features.view(), targets, factor, dfeatures);
}

template <class T>
void AlignmentDirection::backward(const Slot<T>& slot, const Side<T>& source, const Side<T>& input,
                                  Passed<T>& passed, OwnedMatrix<T>& dfeatures,
                                  const OwnedMatrix<T>& dweights, MatrixView<T> dsource,
                                  MatrixView<T> dinput) const {
  slot.dropout.apply(dfeatures, place_);
  const Index rows = input.sequences.rows();
  const Index width = decoder_.outputs();
  OwnedMatrix<T> dcontext(rows, encoder_.outputs());
  for (Index row = 0; row < rows; ++row) {
    std::copy_n(dfeatures.view().row(row) + width, dcontext.cols(), dcontext.view().row(row));
  }
  const mechanisms::Batch<T> batch = batch_of(slot, source, input, passed);
  mechanisms::Tensors<const T> upstream(attention_.form().results.size());
  upstream[Alignment::context] = sequence_tensor(std::as_const(dcontext), input.sequences);
  if (dweights.data() != nullptr) {
    upstream[Alignment::weights] = {
        dweights.data(), {input.sequences.count, input.sequences.length, source.sequences.length}};
  }
  OwnedMatrix<T> dencodings(passed.encodings.rows(), passed.encodings.cols());
  OwnedMatrix<T> dstates(rows, width);
  mechanisms::Tensors<T> gradients(batch.inputs.size());
  gradients[Alignment::source] = sequence_tensor(dencodings, source.sequences);
  gradients[Alignment::target] = sequence_tensor(dstates, input.sequences);
  attention_.backward(slot, batch, upstream, gradients);
  for (Index row = 0; row < rows; ++row) {
    add_row<T>(dstates.view().row(row), dfeatures.view().row(row), width);
  }
  encoder_.backward(slot, source.sequences, source.vectors, passed.encoder,
                    std::as_const(dencodings).view(), dsource);
  decoder_.backward(slot, input.sequences, input.vectors, passed.decoder,
                    std::as_const(dstates).view(), dinput);
}

template <class T>
PassBytes AlignmentDirection::bytes(const Sequences& source, const Sequences& input,
                                    bool with_weights) const {
  const PassBytes layers =
      encoder_.bytes<T>(source)
          .then(decoder_.bytes<T>(input))
          .then(attention_.bytes<T>({{"I", source.length}, {"J", input.length}}, input.count))
          .then(softmax_.bytes<T>(input.rows()));
  const std::int64_t encodings = row_bytes<T>(source.rows(), encoder_.outputs());
  const std::int64_t states = row_bytes<T>(input.rows(), decoder_.outputs());
  const std::int64_t context = row_bytes<T>(input.rows(), encoder_.outputs());
  const std::int64_t features = row_bytes<T>(input.rows(), feature_width());
  const std::int64_t weights =
      with_weights ? row_bytes<T>(input.count, input.length * source.length) : 0;
  return {layers.kept + encodings + states + features + weights, layers.forward + context,
          layers.backward + encodings + states + context + features + weights};
}

#define ATTN_ALIGNMENT_DIRECTION(T)                                                               \
  template void AlignmentDirection::forward(const Slot<T>&, const Side<T>&, const Side<T>&, bool, \
                                            Passed<T>&) const;                                    \
  template Prediction AlignmentDirection::predict(const Slot<T>&, const Passed<T>&,               \
                                                  const Targets&, double, MatrixView<T>) const;   \
  template void AlignmentDirection::backward(const Slot<T>&, const Side<T>&, const Side<T>&,      \
                                             Passed<T>&, OwnedMatrix<T>&, const OwnedMatrix<T>&,  \
                                             MatrixView<T>, MatrixView<T>) const;                 \
  template PassBytes AlignmentDirection::bytes<T>(const Sequences&, const Sequences&, bool) const;
ATTN_ALIGNMENT_DIRECTION(float)
ATTN_ALIGNMENT_DIRECTION(double)
#undef ATTN_ALIGNMENT_DIRECTION

}  // namespace attn::train
