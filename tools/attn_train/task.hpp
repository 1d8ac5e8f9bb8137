#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "attn_train/data_sizes.hpp"
#include "attn_train/run_data.hpp"
#include "io/output.hpp"
#include "train/head_attention.hpp"
#include "train/language_batches.hpp"
#include "train/path_optimizer.hpp"

namespace attn::tools {

/// An attention of a model, as stored in a checkpoint: a group with attributes, projections such as
/// wq (heads, width, d), and wo (heads·d, width) if the attention has an output projection.
struct AttentionGroup {
  std::string name;   ///< "layer0", "decoder/layer0/cross"
  std::string place;  ///< the attention's name in a recipe: "decoder.self"
  const train::HeadAttention* heads = nullptr;
  std::vector<train::MatrixPlace> projections = {};  ///< W_Q, W_K, …: (heads·d, width)
  std::optional<train::MatrixPlace> joining = {};    ///< W_O: (width, heads·d)
};

/// The number of a step, and of its batch in the epoch.
struct StepNumber {
  Index step = 0;  ///< from 1
  train::Epoch epoch;
  Index batch = 0;
};

/// The results of a pass over a batch.
template <class T>
struct StepFound {
  double loss = 0;     ///< the loss whose gradient was taken, times the number of targets
  double targets = 0;  ///< the number of targets
  double tokens = 0;   ///< the number of tokens read
  T* gradients = nullptr;
};

/// The task of a run: a model and the data of an objective.
template <class T>
class Task {
 public:
  virtual ~Task() = default;

  virtual const train::Parameters& parameters() const = 0;
  virtual std::vector<AttentionGroup> attentions() const = 0;

  /// Batches of an epoch.
  virtual Index batches() const = 0;

  virtual DataSizes data_sizes() const = 0;

  /// The pairs, or texts with a class, of all splits that were cut because they exceed the recipe's
  /// lengths.
  virtual Index cut_pairs() const { return 0; }

  /// The names of the classes that the last softmax tells; empty for other tasks.
  virtual std::vector<std::string> classes() const { return {}; }

  /// The gradients of the mean loss of a batch, valid until the next call.
  virtual StepFound<T> differentiate(const T* weights, const StepNumber& number) = 0;

  /// Changes what is not the optimiser's, after its step.
  virtual void finish_step(const StepFound<T>&, T* /*weights*/) const {}

  /// Metrics over a whole split, by name; with `outputs`, also metrics of generated outputs, which
  /// take longer. Absent if the split is empty.
  virtual std::optional<nlohmann::ordered_json> evaluate(const T* weights, Split split,
                                                         bool outputs) = 0;

  /// Figures by attention, for the first batch of validation: group, u, least_column_sum,
  /// explained_away.
  virtual nlohmann::ordered_json attention_figures(const T* weights) = 0;

  /// Adds x, and y if it differs, to the groups of the attentions, for the same batch.
  virtual void write_inputs(const T* weights, io::OutputBundle& bundle) = 0;

  /// Adds, for all pairs of the split of run.keep-weights, the weights by which the words of
  /// targets attend to the source. Nothing for other tasks.
  virtual void write_source_weights(const T* /*weights*/, io::OutputBundle&) const {}

  /// The most memory that the task takes besides the data; with `with_inputs`, including
  /// write_inputs.
  virtual std::int64_t working_bytes(bool with_inputs) const = 0;

  /// Makes room for the passes of a run. Throws std::bad_alloc.
  virtual void reserve() = 0;

  /// Adds the names of the tokens.
  virtual void write_vocabulary(io::OutputBundle& bundle) const = 0;
};

}  // namespace attn::tools
