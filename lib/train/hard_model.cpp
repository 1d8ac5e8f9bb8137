#include "train/hard_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "mechanisms/hard_samples.hpp"
#include "train/linear.hpp"

namespace attn::train {
namespace {

using mechanisms::Hard;

}  // namespace

// The states of both networks.
template <class T>
struct HardModel::Passed {
  OwnedMatrix<T> x, y;
  RecurrentLayer::Kept<T> encoder, decoder;
  OwnedMatrix<T> encodings, states;
};

// The choices before some words, each of which is a sequence of the mechanism.
template <class T>
class HardModel::Choices {
 public:
  // `rows` of the inputs.
  Choices(const Pass<T>& pass, const Passed<T>& passed, const std::vector<Index>& rows)
      : sources_(pass.batch.source.view()),
        input_length_(pass.batch.input.sequences.length),
        rows_(rows),
        annotations_(count() * places(), passed.encodings.cols() + passed.states.cols()),
        states_(count(), passed.states.cols()) {
    const Index width = passed.encodings.cols();
    for (Index n = 0; n < count(); ++n) {
      const T* const h = passed.states.view().row(row(n));
      std::copy_n(h, states_.cols(), states_.view().row(n));
      lengths_.push_back(sources_.own_length(pair(n)));
      for (Index i = 0; i < places(); ++i) {
        T* const annotation = annotations_.view().row(n * places() + i);
        std::copy_n(passed.encodings.view().row(pair(n) * places() + i), width, annotation);
        std::copy_n(h, states_.cols(), annotation + width);
      }
    }
  }

  Index count() const { return std::ssize(rows_); }
  Index places() const { return sources_.length; }
  Index length(Index n) const { return lengths_[static_cast<std::size_t>(n)]; }
  const OwnedMatrix<T>& states() const { return states_; }
  const OwnedMatrix<T>& annotations() const { return annotations_; }

  void put_into(mechanisms::Batch<T>& batch) const {
    batch.sizes["L"] = places();
    batch.inputs[Hard::a] = {annotations_.data(), {count(), places(), annotations_.cols()}};
    batch.inputs[Hard::state] = {states_.data(), {count(), states_.cols()}};
    batch.lengths[0] = {lengths_.data(), {count()}};
  }

  // The weights of all choices, (pairs, J·I); 0 at positions without a choice.
  OwnedMatrix<T> by_pair(const OwnedMatrix<T>& weights) const {
    OwnedMatrix<T> all = OwnedMatrix<T>::zeros(sources_.count, input_length_ * places());
    for (Index n = 0; n < count(); ++n) {
      std::copy_n(weights.view().row(n), places(), all.data() + row(n) * places());
    }
    return all;
  }

  // Adds the gradients of annotations and states to those of the encodings and of the network's
  // states.
  void add_gradients(const OwnedMatrix<T>& da, const OwnedMatrix<T>& dstate,
                     OwnedMatrix<T>& dencodings, OwnedMatrix<T>& dstates) const {
    const Index width = dencodings.cols();
    for (Index n = 0; n < count(); ++n) {
      T* const dh = dstates.view().row(row(n));
      add_row<T>(dh, dstate.view().row(n), dstate.cols());
      for (Index i = 0; i < length(n); ++i) {
        const T* const dannotation = da.view().row(n * places() + i);
        add_row<T>(dencodings.view().row(pair(n) * places() + i), dannotation, width);
        add_row<T>(dh, dannotation + width, dstate.cols());
      }
    }
  }

 private:
  Index row(Index n) const { return rows_[static_cast<std::size_t>(n)]; }
  Index pair(Index n) const { return row(n) / input_length_; }

  Sequences sources_;
  Index input_length_;
  std::vector<Index> rows_, lengths_;
  OwnedMatrix<T> annotations_, states_;
};

HardModel::HardModel(const HardModelOptions& options)
    : MechanismModelOf("hard/", options.model),
      encoder_(parameters(), "hard/encoder/", options.model.network(true)),
      decoder_(parameters(), "hard/decoder/", options.model.network(false)),
      attention_(parameters(), "hard/",
                 MechanismLayer::of<Hard>({{"D", encoder_.outputs() + decoder_.outputs()},
                                           {"H", decoder_.outputs()},
                                           {"A", options.model.inner},
                                           {"V", options.model.vocabulary}},
                                          options.model.deviation)),
      samples_(options.gradient != HardGradient::enumeration) {
  if (options.gradient == HardGradient::sampled_baseline) {
    baseline_ = parameters().add_vector("hard/baseline", 1, 0);
  }
}

// Adds the gradients of the estimate by log p of each choice and by its weight. Returns the sum of
// log p of the samples.
template <class T>
double HardModel::add_samples(const Pass<T>& pass, const Choices<T>& choices,
                              const OwnedMatrix<T>& weights, const OwnedMatrix<T>& log_p,
                              OwnedMatrix<T>& dlog_p, OwnedMatrix<T>& dweights) const {
  const mechanisms::HardSampling sampling = {.seed = pass.slot.dropout.seed};
  const double baseline = baseline_ ? static_cast<double>(pass.slot.weights[*baseline_]) : 0;
  double total = 0;
  T of_entropy = 0;
  for (Index n = 0; n < choices.count(); ++n) {
    const auto own = static_cast<std::ptrdiff_t>(choices.length(n));
    const T* const alpha = weights.view().row(n);
    const T* const each = log_p.view().row(n);
    mechanisms::HardStep step;
    step.weights.assign(alpha, alpha + own);
    step.log_p.assign(each, each + own);
    const double sum = std::accumulate(step.weights.begin(), step.weights.end(), 0.0);
    for (double& weight : step.weights) weight /= sum;
    // The numbers of a slot do not reach those of the next pass.
    const Index number = (Index{pass.slot.dropout.pass} << 31U) + n;
    const mechanisms::HardDraw drawn = draw(step, sampling, number);
    total += drawn_log_p(step, drawn);
    mechanisms::Tensors<T> upstream(attention_.form().results.size());
    upstream[Hard::log_p_each] = {dlog_p.view().row(n), {own}};
    upstream[Hard::weights] = {dweights.view().row(n), {own}};
    upstream[Hard::entropy] = {&of_entropy, {}};
    add_estimate(step, drawn, sampling, baseline, -pass.factor, upstream);
  }
  return total;
}

template <class T>
void HardModel::encode(const Pass<T>& pass, Passed<T>& passed) const {
  passed.x = source_vectors(pass);
  passed.y = input_vectors(pass);
  passed.encodings = encoder_.forward(pass.slot, pass.batch.source.view(),
                                      std::as_const(passed.x).view(), passed.encoder);
  passed.states = decoder_.forward(pass.slot, pass.batch.input.view(),
                                   std::as_const(passed.y).view(), passed.decoder);
}

// log Σ_i α_i p(y|a_i) of every word y, for each choice.
template <class T>
OwnedMatrix<T> HardModel::mixtures(const Slot<T>& slot, const Choices<T>& choices,
                                   const OwnedMatrix<T>& weights) const {
  const MatrixView<const T> readout = attention_.weight(Hard::readout).in(slot.weights);
  const T* const bias = attention_.weight(Hard::readout_bias).in(slot.weights).data;
  OwnedMatrix<T> mixed(choices.count(), readout.rows);
  std::vector<double> sums;
  for (Index n = 0; n < choices.count(); ++n) {
    const Index length = choices.length(n);
    OwnedMatrix<T> z(length, readout.rows);
    kernel::multiply_transposed(
        choices.annotations().view().row_range(n * choices.places(), length), readout, z.view());
    add_to_rows(z.view(), bias);
    sums.assign(static_cast<std::size_t>(readout.rows), 0);
    for (Index i = 0; i < length; ++i) {
      T* const p = z.view().row(i);
      const double sum =
          kernel::exp_row(p, p, z.cols(), nullptr, kernel::row_max(p, z.cols(), nullptr));
      const double share = static_cast<double>(weights.view()(n, i)) / sum;
      for (std::size_t y = 0; y < sums.size(); ++y) sums[y] += share * static_cast<double>(p[y]);
    }
    for (std::size_t y = 0; y < sums.size(); ++y) {
      mixed.view()(n, static_cast<Index>(y)) = static_cast<T>(std::log(sums[y]));
    }
  }
  return mixed;
}

template <class T>
Prediction HardModel::run(const Pass<T>& pass) const {
  const Index width = options().width;
  // Arrays that outlive the pass come first: after larger arrays, they would split the memory of
  // the next pass.
  OwnedMatrix<T> dx, dy;
  if (pass.differentiates()) {
    dx = OwnedMatrix<T>::zeros(pass.batch.source.sequences.rows(), width);
    dy = OwnedMatrix<T>::zeros(pass.batch.input.sequences.rows(), width);
  }
  Passed<T> passed;
  encode(pass, passed);
  const Targets& targets = pass.batch.targets;
  const Choices<T> choices(pass, passed, targets.rows);
  const Index count = choices.count();
  mechanisms::Batch<T> batch = attention_.batch(pass.slot, count);
  choices.put_into(batch);
  batch.tokens[Hard::target] = {targets.tokens.data(), {count}};
  OwnedMatrix<T> log_p(1, count);
  OwnedMatrix<T> entropy(1, count);
  OwnedMatrix<T> weights(count, choices.places());
  const bool samples = samples_ && pass.differentiates();
  OwnedMatrix<T> log_p_each(samples ? count : 0, choices.places());
  mechanisms::Tensors<T> results(attention_.form().results.size());
  results[Hard::log_p] = {log_p.data(), {count}};
  if (samples) results[Hard::log_p_each] = {log_p_each.data(), {count, choices.places()}};
  results[Hard::entropy] = {entropy.data(), {count}};
  results[Hard::weights] = {weights.data(), {count, choices.places()}};
  attention_.forward(batch, results);

  Prediction found;
  found.count = count;
  for (Index n = 0; n < count; ++n) {
    found.loss -= static_cast<double>(log_p.data()[n]);
    if (pass.figures != nullptr) {
      (*pass.figures)["entropy"].add(static_cast<double>(entropy.data()[n]));
    }
  }
  found.smoothed = found.loss;
  if (pass.source_weights != nullptr) *pass.source_weights = choices.by_pair(weights);
  if (!pass.differentiates()) {
    const OwnedMatrix<T> mixed = mixtures(pass.slot, choices, weights);
    for (Index n = 0; n < count; ++n) {
      const T* const row = mixed.view().row(n);
      const Index best = std::max_element(row, row + mixed.cols()) - row;
      if (best == targets.tokens[static_cast<std::size_t>(n)]) ++found.correct;
    }
    return found;
  }

  OwnedMatrix<T> dlog_p(samples ? 0 : 1, count);
  OwnedMatrix<T> deach = OwnedMatrix<T>::zeros(log_p_each.rows(), choices.places());
  OwnedMatrix<T> dweights = OwnedMatrix<T>::zeros(log_p_each.rows(), choices.places());
  mechanisms::Tensors<const T> upstream(results.size());
  if (samples) {
    found.smoothed = -add_samples(pass, choices, weights, log_p_each, deach, dweights);
    upstream[Hard::log_p_each] = {deach.data(), {count, choices.places()}};
    upstream[Hard::weights] = {dweights.data(), {count, choices.places()}};
  } else {
    std::fill_n(dlog_p.data(), count, static_cast<T>(-pass.factor));
    upstream[Hard::log_p] = {dlog_p.data(), {count}};
  }
  if (baseline_) pass.slot.gradients[*baseline_] = 0;
  OwnedMatrix<T> da(choices.annotations().rows(), choices.annotations().cols());
  OwnedMatrix<T> dstate(count, choices.states().cols());
  mechanisms::Tensors<T> gradients(batch.inputs.size());
  gradients[Hard::a] = {da.data(), batch.inputs[Hard::a].shape};
  gradients[Hard::state] = {dstate.data(), batch.inputs[Hard::state].shape};
  attention_.backward(pass.slot, batch, upstream, gradients);
  OwnedMatrix<T> dencodings =
      OwnedMatrix<T>::zeros(passed.encodings.rows(), passed.encodings.cols());
  OwnedMatrix<T> dstates = OwnedMatrix<T>::zeros(passed.states.rows(), passed.states.cols());
  choices.add_gradients(da, dstate, dencodings, dstates);
  encoder_.backward(pass.slot, pass.batch.source.view(), std::as_const(passed.x).view(),
                    passed.encoder, std::as_const(dencodings).view(), dx.view());
  decoder_.backward(pass.slot, pass.batch.input.view(), std::as_const(passed.y).view(),
                    passed.decoder, std::as_const(dstates).view(), dy.view());
  finish_source(pass, dx);
  finish_input(pass, dy);
  return found;
}

template <class T>
OwnedMatrix<T> HardModel::scores(const Pass<T>& pass) const {
  Passed<T> passed;
  encode(pass, passed);
  const Sequences inputs = pass.batch.input.view();
  std::vector<Index> rows;
  for (Index n = 0; n < inputs.count; ++n) {
    rows.push_back(n * inputs.length + inputs.own_length(n) - 1);
  }
  const Choices<T> choices(pass, passed, rows);
  mechanisms::Batch<T> batch = attention_.batch(pass.slot, choices.count());
  choices.put_into(batch);
  // Weights do not depend on the target, which is absent.
  const std::vector<Index> none(rows.size(), 0);
  batch.tokens[Hard::target] = {none.data(), {choices.count()}};
  OwnedMatrix<T> weights(choices.count(), choices.places());
  mechanisms::Tensors<T> results(attention_.form().results.size());
  results[Hard::weights] = {weights.data(), {choices.count(), choices.places()}};
  attention_.forward(batch, results);
  return mixtures(pass.slot, choices, weights);
}

template <class T>
PassBytes HardModel::layer_bytes(const Sequences& source, const Sequences& input) const {
  const Index words = input.rows();
  const PassBytes layers = encoder_.bytes<T>(source)
                               .then(decoder_.bytes<T>(input))
                               .then(attention_.bytes<T>({{"L", source.length}}, words));
  const std::int64_t states = row_bytes<T>(source.rows(), encoder_.outputs()) +
                              row_bytes<T>(input.rows(), decoder_.outputs());
  const std::int64_t choices =
      row_bytes<T>(words * source.length, encoder_.outputs() + decoder_.outputs()) +
      row_bytes<T>(words, decoder_.outputs());
  const std::int64_t results = (samples_ ? 4 : 1) * row_bytes<T>(words, source.length) +
                               row_bytes<T>(words, options().vocabulary);
  const std::int64_t vectors =
      row_bytes<T>(source.rows(), options().width) + row_bytes<T>(input.rows(), options().width);
  return {layers.kept + states + choices + results + vectors, layers.forward,
          layers.backward + states + choices};
}

#define ATTN_HARD_MODEL(T)                                         \
  template Prediction HardModel::run(const Pass<T>&) const;        \
  template OwnedMatrix<T> HardModel::scores(const Pass<T>&) const; \
  template PassBytes HardModel::layer_bytes<T>(const Sequences&, const Sequences&) const;
ATTN_HARD_MODEL(float)
ATTN_HARD_MODEL(double)
#undef ATTN_HARD_MODEL

}  // namespace attn::train
