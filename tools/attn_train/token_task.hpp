#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attn_train/batch_sizes.hpp"
#include "attn_train/task.hpp"
#include "train/batch_pass.hpp"
#include "train/decoder_output.hpp"

namespace attn::tools {

/// The common part of tasks over batches of tokens: passes of a Model, train::Transformer or
/// train::MechanismModel, over the batches of an objective.
template <class T, class Model>
class TokenTask : public Task<T> {
 public:
  using Number = T;

  const train::Parameters& parameters() const override { return model_->parameters(); }
  Index batches() const override;
  StepFound<T> differentiate(const T* weights, const StepNumber& number) override;
  std::optional<nlohmann::ordered_json> evaluate(const T* weights, Split split,
                                                 bool outputs) override;
  std::int64_t working_bytes(bool with_inputs) const override;
  void reserve() override;

 protected:
  TokenTask(const Recipe& recipe, std::unique_ptr<const Model> model, int threads);

  /// The metrics of the objective, from the sums over all targets of a split.
  virtual nlohmann::ordered_json metrics(const train::Prediction& found) const = 0;

  /// The metrics of the model's attention: none here.
  virtual void add_model_metrics(const typename Model::Sums& found,
                                 nlohmann::ordered_json& metrics) const;

  /// The metrics of generated outputs: none here.
  virtual void add_output_metrics(const T* weights, Split split, nlohmann::ordered_json& metrics);

  /// The memory of add_output_metrics: none here.
  virtual std::int64_t output_bytes() const { return 0; }

  /// The matrices of weights that the task writes of each pair: none here.
  virtual Index source_weights() const { return 0; }

  /// Whether sequences have many lengths; here all but the last of a split have the same.
  virtual bool has_many_lengths() const { return false; }

  /// The most positions of a source and of a sequence.
  virtual std::pair<Index, Index> longest() const { return longest_; }

  /// The bytes of the model for its largest slots.
  virtual train::SlotBytes slot_bytes(const BatchSizes& sizes) const = 0;

  /// The additional bytes of attention figures and, with `with_inputs`, of attention inputs.
  virtual std::int64_t figure_bytes(const BatchSizes& sizes, bool with_inputs) const = 0;

  /// The sizes of data with these vocabularies.
  DataSizes sizes_of(std::vector<Index> vocabularies, Index outcomes) const;

  /// Null for an empty split.
  void set_batches(Split split, std::unique_ptr<train::Batches> batches);

  const Model& model() const { return *model_; }
  int threads() const { return threads_; }
  train::Batches* of(Split split) const { return batches_[static_cast<std::size_t>(split)].get(); }

 private:
  std::int64_t source_weight_bytes(const BatchSizes& sizes) const;

  std::unique_ptr<const Model> model_;
  train::BatchPass<Model, T> pass_;
  std::array<std::unique_ptr<train::Batches>, 3> batches_;
  std::pair<Index, Index> longest_;
  train::DropoutRates dropout_;
  std::uint64_t seed_;
  int threads_;
};

/// The metrics of all objectives: loss, the mean over the targets, and accuracy.
nlohmann::ordered_json common_metrics(const train::Prediction& found);

/// Writes the symbols of a vocabulary, and its merges, if any, as NAME and NAME_merges.
void write_symbols(const train::Vocabulary& vocabulary, const std::string& name,
                   io::OutputBundle& bundle);

}  // namespace attn::tools
