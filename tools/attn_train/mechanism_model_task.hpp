#pragma once

#include <memory>
#include <vector>

#include "attn_train/token_task.hpp"
#include "train/mechanism_model.hpp"

namespace attn::tools {

/// The common part of objectives with a mechanism's model. Checkpoints have no groups for its
/// attention; the attention's MechanismFigures are among the metrics.
template <class T>
class MechanismModelTask : public TokenTask<T, train::MechanismModel> {
 public:
  std::vector<AttentionGroup> attentions() const override { return {}; }
  nlohmann::ordered_json attention_figures(const T*) override {
    return nlohmann::ordered_json::array();
  }
  void write_inputs(const T*, io::OutputBundle&) override {}
  void finish_step(const StepFound<T>& found, T* weights) const override;

 protected:
  MechanismModelTask(const Recipe& recipe, std::unique_ptr<const train::MechanismModel> model,
                     int threads);

  void add_model_metrics(const train::MechanismPrediction& found,
                         nlohmann::ordered_json& metrics) const override;
  train::SlotBytes slot_bytes(const BatchSizes& sizes) const override;
  std::int64_t figure_bytes(const BatchSizes&, bool) const override { return 0; }

  bool can_generate() const { return true; }
  Index attentions_to_source() const { return 1; }
  std::vector<std::vector<Index>> generate(const T* weights,
                                           const std::vector<std::vector<Index>>& sources,
                                           const train::OutputOptions& options) const;
  std::int64_t generation_bytes(Index source_length, const train::OutputOptions& options) const;
};

/// The model that model.kind names, for vocabularies and classes of these sizes.
struct MechanismSizes {
  Index source_vocabulary = 0;  ///< 0: there are no sources
  Index vocabulary = 0;
  bool joint = false;
  Index classes = 0;

  /// The sizes for texts and questions about them, with one vocabulary and one embedding.
  static MechanismSizes of_questions(Index vocabulary) {
    return {.source_vocabulary = vocabulary, .vocabulary = vocabulary, .joint = true};
  }
};
std::unique_ptr<const train::MechanismModel> make_mechanism_model(const Recipe& recipe,
                                                                  const MechanismSizes& sizes);

}  // namespace attn::tools
