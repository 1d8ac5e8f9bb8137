#include "train/over_attention_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace attn::train {
namespace {

using mechanisms::OverAttention;

// The prediction of one question from the attention s over its document's words.
template <class T>
Prediction predicted(const T* s, const Index* words, Index length, Index answer) {
  std::map<Index, double> sums;
  for (Index i = 0; i < length; ++i) sums[words[i]] += static_cast<double>(s[i]);
  double best = 0;
  for (const auto& [word, sum] : sums) best = std::max(best, sum);
  // Among equal words, the first one.
  const Index* const first =
      std::find_if(words, words + length, [&](Index word) { return sums[word] == best; });
  Prediction found;
  found.count = 1;
  found.loss = -std::log(sums[answer]);
  found.smoothed = found.loss;
  found.correct = first != words + length && *first == answer ? 1 : 0;
  return found;
}

}  // namespace

OverAttentionModel::OverAttentionModel(const MechanismOptions& options)
    : MechanismModelOf("over_attention/", options),
      document_(parameters(), "over_attention/document/", options.network(true)),
      question_(parameters(), "over_attention/question/", options.network(true)),
      attention_(
          parameters(), "over_attention/",
          MechanismLayer::of<OverAttention>({{"D", document_.outputs()}}, options.deviation)) {}

template <class T>
Prediction OverAttentionModel::run(const Pass<T>& pass) const {
  const Sequences documents = pass.batch.source.view();
  const Sequences questions = pass.batch.input.view();
  const OwnedMatrix<T> xd = source_vectors(pass);
  const OwnedMatrix<T> xq = input_vectors(pass);
  RecurrentLayer::Kept<T> kept_d;
  RecurrentLayer::Kept<T> kept_q;
  const OwnedMatrix<T> d = document_.forward(pass.slot, documents, xd.view(), kept_d);
  const OwnedMatrix<T> q = question_.forward(pass.slot, questions, xq.view(), kept_q);

  mechanisms::Batch<T> batch = attention_.batch(pass.slot, documents.count);
  batch.sizes["M"] = documents.length;
  batch.sizes["N"] = questions.length;
  batch.inputs[OverAttention::document] = sequence_tensor(d, documents);
  batch.inputs[OverAttention::question] = sequence_tensor(q, questions);
  batch.lengths = {lengths_of(documents), lengths_of(questions)};
  OwnedMatrix<T> s(documents.count, documents.length);
  mechanisms::Tensors<T> results(attention_.form().results.size());
  results[OverAttention::s] = {s.data(), {documents.count, documents.length}};
  attention_.forward(batch, results);

  Prediction found;
  OwnedMatrix<T> ds = OwnedMatrix<T>::zeros(s.rows(), s.cols());
  for (Index n = 0; n < pass.batch.target_count(); ++n) {
    const auto at = static_cast<std::size_t>(n);
    const Index row = pass.batch.targets.rows[at];
    const Index answer = pass.batch.targets.tokens[at];
    const Index length = documents.own_length(row);
    const Index* const words = pass.batch.source.tokens.data() + row * documents.length;
    const T* const weights = s.view().row(row);
    const Prediction one = predicted(weights, words, length, answer);
    found.add(one);
    const double probability = std::exp(-one.loss);
    for (Index i = 0; i < length; ++i) {
      if (words[i] == answer) ds.view()(row, i) = static_cast<T>(-pass.factor / probability);
    }
    if (pass.figures != nullptr && length > 0) {
      (*pass.figures)["largest"].add(
          static_cast<double>(*std::max_element(weights, weights + length)));
    }
  }
  if (!pass.differentiates()) return found;

  mechanisms::Tensors<const T> upstream(results.size());
  upstream[OverAttention::s] = {ds.data(), results[OverAttention::s].shape};
  OwnedMatrix<T> dd(d.rows(), d.cols());
  OwnedMatrix<T> dq(q.rows(), q.cols());
  mechanisms::Tensors<T> gradients(batch.inputs.size());
  gradients[OverAttention::document] = sequence_tensor(dd, documents);
  gradients[OverAttention::question] = sequence_tensor(dq, questions);
  attention_.backward(pass.slot, batch, upstream, gradients);
  OwnedMatrix<T> dxd = OwnedMatrix<T>::zeros(xd.rows(), xd.cols());
  OwnedMatrix<T> dxq = OwnedMatrix<T>::zeros(xq.rows(), xq.cols());
  document_.backward(pass.slot, documents, xd.view(), kept_d, std::as_const(dd).view(), dxd.view());
  question_.backward(pass.slot, questions, xq.view(), kept_q, std::as_const(dq).view(), dxq.view());
  finish_source(pass, dxd);
  finish_input(pass, dxq);
  return found;
}

template <class T>
PassBytes OverAttentionModel::layer_bytes(const Sequences& source, const Sequences& input) const {
  const PassBytes layers =
      document_.bytes<T>(source)
          .then(question_.bytes<T>(input))
          .then(attention_.bytes<T>({{"M", source.length}, {"N", input.length}}, source.count));
  const std::int64_t states = row_bytes<T>(source.rows(), document_.outputs()) +
                              row_bytes<T>(input.rows(), question_.outputs());
  const std::int64_t weights = 2 * row_bytes<T>(source.count, source.length);
  const std::int64_t vectors =
      row_bytes<T>(source.rows(), options().width) + row_bytes<T>(input.rows(), options().width);
  return {layers.kept + states + weights, layers.forward, layers.backward + states + vectors};
}

#define ATTN_OVER_ATTENTION_MODEL(T)                                 \
  template Prediction OverAttentionModel::run(const Pass<T>&) const; \
  template PassBytes OverAttentionModel::layer_bytes<T>(const Sequences&, const Sequences&) const;
ATTN_OVER_ATTENTION_MODEL(float)
ATTN_OVER_ATTENTION_MODEL(double)
#undef ATTN_OVER_ATTENTION_MODEL

}  // namespace attn::train
