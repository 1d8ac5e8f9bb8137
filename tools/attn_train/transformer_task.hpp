#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attn_train/batch_sizes.hpp"
#include "attn_train/task.hpp"
#include "train/batch_pass.hpp"

namespace attn::tools {

/// What the objectives of a Transformer share: its passes over batches, and its attentions.
template <class T>
class TransformerTask : public Task<T> {
 public:
  const train::Parameters& parameters() const override { return model_.parameters(); }
  std::vector<AttentionGroup> attentions() const override;
  Index batches() const override;
  StepFound<T> differentiate(const T* weights, const StepNumber& number) override;
  std::optional<nlohmann::ordered_json> evaluate(const T* weights, Split split,
                                                 bool outputs) override;
  nlohmann::ordered_json attention_figures(const T* weights) override;
  void write_inputs(const T* weights, io::OutputBundle& bundle) override;
  std::int64_t working_bytes(bool with_inputs) const override;
  void reserve() override;

 protected:
  TransformerTask(const Recipe& recipe, const train::TransformerOptions& options, int threads);

  /// The metrics of the objective, from the sums over all targets of a split.
  virtual nlohmann::ordered_json metrics(const train::Prediction& found) const = 0;

  /// The metrics of generated outputs: none here.
  virtual void add_output_metrics(const T* weights, Split split, nlohmann::ordered_json& metrics);

  /// The memory of add_output_metrics: none here.
  virtual std::int64_t output_bytes() const;

  /// Whether sequences have many lengths; here all but the last of a split have one.
  virtual bool has_many_lengths() const { return false; }

  /// The most positions of a source and of a sequence.
  virtual std::pair<Index, Index> longest() const {
    return {model_.options().source_length, model_.options().length};
  }

  /// Null for a split that is empty.
  void set_batches(Split split, std::unique_ptr<train::Batches> batches);

  const train::Transformer& model() const { return model_; }
  int threads() const { return threads_; }

 private:
  train::SlotBytes slot_bytes(const BatchSizes& sizes) const;
  train::Batches* of(Split split) const { return batches_[static_cast<std::size_t>(split)].get(); }

  train::Transformer model_;
  train::BatchPass<train::Transformer, T> pass_;
  std::array<std::unique_ptr<train::Batches>, 3> batches_;
  train::DropoutRates dropout_;
  std::uint64_t seed_;
  bool masked_;
  int threads_;
};

/// −loss per target as the metrics that all objectives have: loss and accuracy.
nlohmann::ordered_json common_metrics(const train::Prediction& found);

/// Writes the symbols of a vocabulary, and its merges where it has some, as NAME and NAME_merges.
void write_symbols(const train::Vocabulary& vocabulary, const std::string& name,
                   io::OutputBundle& bundle);

}  // namespace attn::tools
