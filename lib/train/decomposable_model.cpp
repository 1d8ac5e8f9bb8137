#include "train/decomposable_model.hpp"

#include "train/softmax_loss.hpp"

namespace attn::train {
namespace {

using mechanisms::Decomposable;

mechanisms::Sizes decomposable_sizes(const MechanismOptions& options) {
  mechanisms::Sizes sizes = {{"D", options.width}, {"K", options.classes}};
  for (const char* const inner : {"E", "F", "G", "C", "H"}) sizes[inner] = options.inner;
  return sizes;
}

}  // namespace

DecomposableModel::DecomposableModel(const MechanismOptions& options)
    : MechanismModelOf("decomposable/", options),
      attention_(parameters(), "decomposable/",
                 MechanismLayer::of<Decomposable>(decomposable_sizes(options), options.deviation)) {
}

template <class T>
Prediction DecomposableModel::run(const Pass<T>& pass) const {
  const Sequences sources = pass.batch.source.view();
  const Sequences inputs = pass.batch.input.view();
  const OwnedMatrix<T> a = source_vectors(pass);
  const OwnedMatrix<T> b = input_vectors(pass);
  mechanisms::Batch<T> batch = attention_.batch(pass.slot, sources.count);
  batch.sizes["M"] = sources.length;
  batch.sizes["N"] = inputs.length;
  batch.inputs[Decomposable::a] = sequence_tensor(a, sources);
  batch.inputs[Decomposable::b] = sequence_tensor(b, inputs);
  batch.lengths = {lengths_of(sources), lengths_of(inputs)};
  const Index classes = options().classes;
  OwnedMatrix<T> scores(sources.count, classes);
  mechanisms::Tensors<T> results(attention_.form().results.size());
  results[Decomposable::scores] = {scores.data(), {sources.count, classes}};
  attention_.forward(batch, results);

  Prediction found;
  for (Index n = 0; n < pass.batch.target_count(); ++n) {
    const auto at = static_cast<std::size_t>(n);
    found.add(softmax_loss(scores.view().row(pass.batch.targets.rows[at]), classes,
                           pass.batch.targets.tokens[at], options().smoothing, pass.factor));
  }
  if (!pass.differentiates()) return found;

  mechanisms::Tensors<const T> upstream(results.size());
  upstream[Decomposable::scores] = {scores.data(), results[Decomposable::scores].shape};
  OwnedMatrix<T> da(a.rows(), a.cols());
  OwnedMatrix<T> db(b.rows(), b.cols());
  mechanisms::Tensors<T> gradients(batch.inputs.size());
  gradients[Decomposable::a] = sequence_tensor(da, sources);
  gradients[Decomposable::b] = sequence_tensor(db, inputs);
  attention_.backward(pass.slot, batch, upstream, gradients);
  finish_source(pass, da);
  finish_input(pass, db);
  return found;
}

template <class T>
PassBytes DecomposableModel::layer_bytes(const Sequences& source, const Sequences& input) const {
  PassBytes layers = attention_.bytes<T>({{"M", source.length}, {"N", input.length}}, source.count);
  layers.kept += row_bytes<T>(source.count, options().classes);
  layers.backward +=
      row_bytes<T>(source.rows(), options().width) + row_bytes<T>(input.rows(), options().width);
  return layers;
}

#define ATTN_DECOMPOSABLE_MODEL(T)                                  \
  template Prediction DecomposableModel::run(const Pass<T>&) const; \
  template PassBytes DecomposableModel::layer_bytes<T>(const Sequences&, const Sequences&) const;
ATTN_DECOMPOSABLE_MODEL(float)
ATTN_DECOMPOSABLE_MODEL(double)
#undef ATTN_DECOMPOSABLE_MODEL

}  // namespace attn::train
