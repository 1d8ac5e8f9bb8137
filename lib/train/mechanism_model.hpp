#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/embedding.hpp"
#include "train/recurrent_layer.hpp"
#include "train/source_weights.hpp"
#include "train/transformer.hpp"

namespace attn::train {

/// The common options of models around mechanisms. Matrices start as start_deviation says.
struct MechanismOptions {
  Index source_vocabulary = 0;  ///< 0: there are no sources
  Index vocabulary = 0;         ///< of inputs
  bool joint = false;           ///< sources and inputs have the same vocabulary and vectors
  Index classes = 0;            ///< the number of answers of a model with fixed answers
  Index width = 0;              ///< of the tokens' vectors, and of the states of one direction
  Index inner = 0;              ///< of energies, and of two-layer networks
  RecurrentCell cell = RecurrentCell::lstm;  ///< of recurrent networks
  double smoothing = 0;                      ///< of labels
  std::optional<double> deviation;

  /// A recurrent network over the vectors of tokens.
  RecurrentLayer::Options network(bool both_ways) const {
    return {.cell = cell,
            .inputs = width,
            .width = width,
            .both_ways = both_ways,
            .deviation = deviation};
  }
};

/// A mean over some numbers, 0 of none.
struct MeanFigure {
  double sum = 0;
  Index count = 0;

  void add(double number) {
    sum += number;
    ++count;
  }
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

/// Figures of a mechanism's attention, by name; each model says what the mean is over.
using MechanismFigures = std::map<std::string, MeanFigure>;

/// The results of a pass; only a pass without gradients has figures.
struct MechanismPrediction : Prediction {
  MechanismFigures figures;

  void add(const MechanismPrediction& more) {
    Prediction::add(more);
    for (const auto& [name, figure] : more.figures) {
      figures[name].sum += figure.sum;
      figures[name].count += figure.count;
    }
  }
};

inline void put_sums(SlotMessage& message, const MechanismPrediction& sums) {
  put_sums(message, static_cast<const Prediction&>(sums));
  message.put(sums.figures.size());
  for (const auto& [name, figure] : sums.figures) {
    message.put_text(name);
    message.put(figure);
  }
}
inline void take_sums(SlotMessage& message, MechanismPrediction& sums) {
  take_sums(message, static_cast<Prediction&>(sums));
  std::size_t figures = 0;
  message.take(figures);
  for (std::size_t n = 0; n < figures; ++n) {
    const std::string name = message.take_text();
    message.take(sums.figures[name]);
  }
}

/// The baseline of the next step, from that of a step and its mean of log p (Xu et al.; TN §2.5).
inline double next_baseline(double b, double log_p) { return 0.9 * b + 0.1 * log_p; }

/// A model around a mechanism of lib/mechanisms, for the batches of a Transformer. It has
/// embeddings of sources and inputs without positions, as its encoders know the order.
/// Prediction::smoothed, whose gradient a step takes, may include a penalty of attention.
class MechanismModel {
 public:
  using Batch = SlotBatch;
  using Sums = MechanismPrediction;

  virtual ~MechanismModel() = default;

  const Parameters& parameters() const { return parameters_; }
  bool has_sources() const { return source_.has_value(); }

  /// The place of a number among the parameters that is the baseline of REINFORCE: before a step
  /// it is b, and after the optimiser's step it becomes next_baseline. None for other models.
  virtual std::optional<Index> baseline() const { return std::nullopt; }

  /// The gradients that a pass returns instead of writing them: see Embedding::backward.
  template <class T>
  struct TokenGradients {
    OwnedMatrix<T> source;
    OwnedMatrix<T> input;

    std::array<OwnedMatrix<T>*, 2> arrays() { return {&source, &input}; }
  };

  /// The predictions of a slot.
  template <class T>
  MechanismPrediction predict(const Slot<T>& slot, const SlotBatch& batch) const {
    MechanismFigures figures;
    const Prediction found = pass(Pass<T>{slot, batch, 0, nullptr, &figures});
    return {found, figures};
  }

  /// The same, and writes the gradients of the smoothed loss times factors.targets to the slot, for
  /// all tensors except those by rows.
  template <class T>
  MechanismPrediction differentiate(const Slot<T>& slot, const SlotBatch& batch,
                                    const LossFactors& factors,
                                    TokenGradients<T>& token_gradients) const {
    return {pass(Pass<T>{slot, batch, factors.targets, &token_gradients, nullptr}), {}};
  }

  /// For a model from source to target: log p of every token at the last position of each input,
  /// (inputs, vocabulary). Throws std::logic_error for other models.
  template <class T>
  OwnedMatrix<T> next_scores(const Slot<T>& slot, const SlotBatch& batch) const {
    return last_scores(Pass<T>{slot, batch, 0, nullptr, nullptr});
  }

  /// For a model from source to target: the weights of its attention. Throws std::logic_error for
  /// other models.
  template <class T>
  std::vector<SourceWeights<T>> source_weights(const Slot<T>& slot, const SlotBatch& batch) const {
    SourceWeights<T> found{name_, 0, {}};
    pass(Pass<T>{slot, batch, 0, nullptr, nullptr, &found.weights});
    if (found.weights.data() == nullptr && batch.input.sequences.rows() > 0) refuse_weights();
    std::vector<SourceWeights<T>> all;
    all.push_back(std::move(found));
    return all;
  }

  /// The bytes for slots of such sequences; `source` has no rows for a model without sources.
  template <class T>
  SlotBytes bytes(const Sequences& source, const Sequences& input) const;

  /// Adds a slot's gradients of the tokens' vectors to the gradients of the tables.
  template <class T>
  void add_token_gradients(const SlotBatch& batch, const TokenGradients<T>& token_gradients,
                           T* gradients) const;

 protected:
  /// A pass over a slot, with gradients if there are `token_gradients`.
  template <class T>
  struct Pass {
    const Slot<T>& slot;
    const SlotBatch& batch;
    double factor;
    TokenGradients<T>* token_gradients;
    MechanismFigures* figures;
    OwnedMatrix<T>* source_weights =
        nullptr;  ///< if given, a model from source to target writes it

    bool differentiates() const { return token_gradients != nullptr; }
  };

  /// Adds the table PREFIXinput/tokens and, for sources with a table of their own,
  /// PREFIXsource/tokens.
  MechanismModel(const std::string& prefix, const MechanismOptions& options);

  // The functions of a model, in both types: see MechanismModelOf.
  virtual Prediction pass(const Pass<float>& pass) const = 0;
  virtual Prediction pass(const Pass<double>& pass) const = 0;
  virtual OwnedMatrix<float> last_scores(const Pass<float>& pass) const;
  virtual OwnedMatrix<double> last_scores(const Pass<double>& pass) const;
  virtual PassBytes bytes_f32(const Sequences& source, const Sequences& input) const = 0;
  virtual PassBytes bytes_f64(const Sequences& source, const Sequences& input) const = 0;

  const MechanismOptions& options() const { return options_; }
  Parameters& parameters() { return parameters_; }
  double deviation_of(Index rows, Index cols) const;

  /// Vectors of tokens, and the way back from their gradients.
  template <class T>
  OwnedMatrix<T> source_vectors(const Pass<T>& pass) const;
  template <class T>
  OwnedMatrix<T> input_vectors(const Pass<T>& pass) const;
  template <class T>
  void finish_source(const Pass<T>& pass, OwnedMatrix<T>& dx) const;
  template <class T>
  void finish_input(const Pass<T>& pass, OwnedMatrix<T>& dx) const;

 private:
  [[noreturn]] static void refuse_weights();

  std::string name_;  // the prefix without its slash
  MechanismOptions options_;
  Parameters parameters_;
  std::optional<Embedding> input_;
  std::optional<Embedding> source_;
};

/// The virtual functions of a class Model that has, for T = float and double,
///
///   Prediction run(const Pass<T>&) const: the predictions of a slot, and their gradients;
///   PassBytes layer_bytes<T>(source, input) const: the memory without the embeddings;
///   and, from source to target, OwnedMatrix<T> scores(const Pass<T>&) const: see next_scores.
template <class Model>
class MechanismModelOf : public MechanismModel {
 public:
  using MechanismModel::MechanismModel;

 private:
  const Model& model() const { return static_cast<const Model&>(*this); }

  Prediction pass(const Pass<float>& pass) const final { return model().run(pass); }
  Prediction pass(const Pass<double>& pass) const final { return model().run(pass); }
  OwnedMatrix<float> last_scores(const Pass<float>& pass) const final { return scores_of(pass); }
  OwnedMatrix<double> last_scores(const Pass<double>& pass) const final { return scores_of(pass); }
  PassBytes bytes_f32(const Sequences& source, const Sequences& input) const final {
    return model().template layer_bytes<float>(source, input);
  }
  PassBytes bytes_f64(const Sequences& source, const Sequences& input) const final {
    return model().template layer_bytes<double>(source, input);
  }

  template <class T>
  OwnedMatrix<T> scores_of(const Pass<T>& pass) const {
    if constexpr (requires { model().scores(pass); }) {
      return model().scores(pass);
    } else {
      return MechanismModel::last_scores(pass);
    }
  }
};

}  // namespace attn::train
