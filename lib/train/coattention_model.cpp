#include "train/coattention_model.hpp"

#include <algorithm>
#include <utility>

namespace attn::train {
namespace {

using mechanisms::Coattention;

MechanismLayer::Options coattention_options(const CoattentionModelOptions& options) {
  const MechanismOptions& model = options.model;
  return {.f32 = Coattention::make<float>(options.decoding),
          .f64 = Coattention::make<double>(options.decoding),
          .sizes = {{"E", model.width},
                    {"L", model.width},
                    {"P", options.pieces},
                    {"I", options.decoding.iterations}},
          .absent = {},
          .deviation = model.deviation};
}

// 2|A∩B|/(|A| + |B|) of two spans; a span that ends before it starts is empty.
double overlap(Index start, Index end, Index other_start, Index other_end) {
  const Index both = std::min(end, other_end) - std::max(start, other_start) + 1;
  const Index sizes = std::max<Index>(0, end - start + 1) + (other_end - other_start + 1);
  return 2 * static_cast<double>(std::max<Index>(0, both)) / static_cast<double>(sizes);
}

}  // namespace

CoattentionModel::CoattentionModel(const CoattentionModelOptions& options)
    : MechanismModelOf("coattention/", options.model),
      attention_(parameters(), "coattention/", coattention_options(options)) {}

template <class T>
Prediction CoattentionModel::run(const Pass<T>& pass) const {
  const Sequences documents = pass.batch.source.view();
  const Sequences questions = pass.batch.input.view();
  const Index count = documents.count;
  const OwnedMatrix<T> d = source_vectors(pass);
  const OwnedMatrix<T> q = input_vectors(pass);
  mechanisms::Batch<T> batch = attention_.batch(pass.slot, count);
  batch.sizes["M"] = documents.length;
  batch.sizes["N"] = questions.length;
  batch.inputs[Coattention::document] = sequence_tensor(d, documents);
  batch.inputs[Coattention::question] = sequence_tensor(q, questions);
  batch.tokens[Coattention::target] = {pass.batch.targets.tokens.data(), {count, 2}};
  batch.lengths = {lengths_of(documents), lengths_of(questions)};
  OwnedMatrix<T> loss(1, count);
  OwnedMatrix<T> iterations(1, count);
  OwnedMatrix<T> spans(count, 2);
  mechanisms::Tensors<T> results(attention_.form().results.size());
  results[Coattention::loss] = {loss.data(), {count}};
  results[Coattention::iterations] = {iterations.data(), {count}};
  results[Coattention::span] = {spans.data(), {count, 2}};
  attention_.forward(batch, results);

  Prediction found;
  found.count = 2 * count;
  for (Index n = 0; n < count; ++n) {
    found.loss += static_cast<double>(loss.data()[n]);
    const Index* const target = pass.batch.targets.tokens.data() + 2 * n;
    const auto start = static_cast<Index>(spans.view()(n, 0));
    const auto end = static_cast<Index>(spans.view()(n, 1));
    found.correct += (start == target[0] ? 1 : 0) + (end == target[1] ? 1 : 0);
    if (pass.figures == nullptr) continue;
    MechanismFigures& figures = *pass.figures;
    figures["exact_match"].add(start == target[0] && end == target[1] ? 1 : 0);
    figures["f1"].add(overlap(start, end, target[0], target[1]));
    figures["iterations"].add(static_cast<double>(iterations.data()[n]));
  }
  found.smoothed = found.loss;
  if (!pass.differentiates()) return found;

  OwnedMatrix<T> dloss(1, count);
  std::fill_n(dloss.data(), count, static_cast<T>(pass.factor));
  mechanisms::Tensors<const T> upstream(results.size());
  upstream[Coattention::loss] = {dloss.data(), {count}};
  OwnedMatrix<T> dd(d.rows(), d.cols());
  OwnedMatrix<T> dq(q.rows(), q.cols());
  mechanisms::Tensors<T> gradients(batch.inputs.size());
  gradients[Coattention::document] = sequence_tensor(dd, documents);
  gradients[Coattention::question] = sequence_tensor(dq, questions);
  attention_.backward(pass.slot, batch, upstream, gradients);
  finish_source(pass, dd);
  finish_input(pass, dq);
  return found;
}

template <class T>
PassBytes CoattentionModel::layer_bytes(const Sequences& source, const Sequences& input) const {
  PassBytes layers = attention_.bytes<T>({{"M", source.length}, {"N", input.length}}, source.count);
  layers.kept += 5 * row_bytes<T>(1, source.count);
  layers.backward +=
      row_bytes<T>(source.rows(), options().width) + row_bytes<T>(input.rows(), options().width);
  return layers;
}

#define ATTN_COATTENTION_MODEL(T)                                  \
  template Prediction CoattentionModel::run(const Pass<T>&) const; \
  template PassBytes CoattentionModel::layer_bytes<T>(const Sequences&, const Sequences&) const;
ATTN_COATTENTION_MODEL(float)
ATTN_COATTENTION_MODEL(double)
#undef ATTN_COATTENTION_MODEL

}  // namespace attn::train
