#include "train/mechanism_model.hpp"

#include <stdexcept>

#include "train/start_deviation.hpp"

namespace attn::train {
namespace {

// The numbers of dropout; see Dropout.
constexpr std::uint32_t place_of_sources = 0;
constexpr std::uint32_t place_of_inputs = 1;

}  // namespace

void MechanismModel::refuse_weights() {
  throw std::logic_error("this model has no attention from target to source");
}

MechanismModel::MechanismModel(const std::string& prefix, const MechanismOptions& options)
    : name_(prefix.substr(0, prefix.find_last_of('/'))), options_(options) {
  const auto embedding = [&](const std::string& name, Index vocabulary, std::uint32_t place) {
    const Embedding::Options made = {.vocabulary = vocabulary,
                                     .width = options.width,
                                     .length = 0,
                                     .positions = Positions::none,
                                     .deviation = deviation_of(vocabulary, options.width),
                                     .tied = false};
    return Embedding(parameters_, prefix + name, made, place);
  };
  input_ = embedding("input/", options.vocabulary, place_of_inputs);
  if (options.joint) {
    source_ = input_->at(place_of_sources);
  } else if (options.source_vocabulary > 0) {
    source_ = embedding("source/", options.source_vocabulary, place_of_sources);
  }
}

double MechanismModel::deviation_of(Index rows, Index cols) const {
  return start_deviation(options_.deviation, rows, cols);
}

template <class T>
OwnedMatrix<T> MechanismModel::source_vectors(const Pass<T>& pass) const {
  const TokenRows& rows = pass.batch.source;
  return source_->forward(pass.slot, rows.view(), rows.tokens.data());
}

template <class T>
OwnedMatrix<T> MechanismModel::input_vectors(const Pass<T>& pass) const {
  const TokenRows& rows = pass.batch.input;
  return input_->forward(pass.slot, rows.view(), rows.tokens.data());
}

template <class T>
void MechanismModel::finish_source(const Pass<T>& pass, OwnedMatrix<T>& dx) const {
  const TokenRows& rows = pass.batch.source;
  source_->backward(pass.slot, rows.view(), rows.tokens.data(), dx);
  pass.token_gradients->source = std::move(dx);
}

template <class T>
void MechanismModel::finish_input(const Pass<T>& pass, OwnedMatrix<T>& dx) const {
  const TokenRows& rows = pass.batch.input;
  input_->backward(pass.slot, rows.view(), rows.tokens.data(), dx);
  pass.token_gradients->input = std::move(dx);
}

template <class T>
void MechanismModel::add_token_gradients(const SlotBatch& batch,
                                         const TokenGradients<T>& token_gradients,
                                         T* gradients) const {
  if (source_) {
    source_->add_rows(token_gradients.source, batch.source.tokens.data(), gradients);
  }
  input_->add_rows(token_gradients.input, batch.input.tokens.data(), gradients);
}

OwnedMatrix<float> MechanismModel::last_scores(const Pass<float>&) const {
  throw std::logic_error("the model has no outputs");
}
OwnedMatrix<double> MechanismModel::last_scores(const Pass<double>&) const {
  throw std::logic_error("the model has no outputs");
}

template <class T>
SlotBytes MechanismModel::bytes(const Sequences& source, const Sequences& input) const {
  const PassBytes layers = [&] {
    if constexpr (std::is_same_v<T, float>) {
      return bytes_f32(source, input);
    } else {
      return bytes_f64(source, input);
    }
  }();
  const std::int64_t vectors =
      row_bytes<T>(source.rows(), options_.width) + row_bytes<T>(input.rows(), options_.width);
  SlotBytes found;
  found.returned = vectors;  // the gradients of tokens
  found.predict = vectors + layers.kept + layers.forward;
  found.differentiate = vectors + layers.kept + std::max(layers.forward, layers.backward);
  return found;
}

#define ATTN_MECHANISM_MODEL(T)                                                                 \
  template OwnedMatrix<T> MechanismModel::source_vectors(const Pass<T>&) const;                 \
  template OwnedMatrix<T> MechanismModel::input_vectors(const Pass<T>&) const;                  \
  template void MechanismModel::finish_source(const Pass<T>&, OwnedMatrix<T>&) const;           \
  template void MechanismModel::finish_input(const Pass<T>&, OwnedMatrix<T>&) const;            \
  template void MechanismModel::add_token_gradients(const SlotBatch&, const TokenGradients<T>&, \
                                                    T*) const;                                  \
  template SlotBytes MechanismModel::bytes<T>(const Sequences&, const Sequences&) const;
ATTN_MECHANISM_MODEL(float)
ATTN_MECHANISM_MODEL(double)
#undef ATTN_MECHANISM_MODEL

}  // namespace attn::train
