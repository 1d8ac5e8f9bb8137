#pragma once

#include <vector>

#include "attn_train/token_task.hpp"

namespace attn::tools {

/// The common part of objectives with a Transformer: its attentions and outputs.
template <class T>
class TransformerTask : public TokenTask<T, train::Transformer> {
 public:
  std::vector<AttentionGroup> attentions() const override;
  nlohmann::ordered_json attention_figures(const T* weights) override;
  void write_inputs(const T* weights, io::OutputBundle& bundle) override;

 protected:
  TransformerTask(const Recipe& recipe, const train::TransformerOptions& options, int threads);

  train::SlotBytes slot_bytes(const BatchSizes& sizes) const override;
  std::int64_t figure_bytes(const BatchSizes& sizes, bool with_inputs) const override;

  /// Whether outputs can be generated token by token: not if later tokens change the weights of
  /// earlier tokens.
  bool can_generate() const;

  /// The matrices of weights of a pair: heads of all layers of the decoder.
  Index attentions_to_source() const;
  std::vector<std::vector<Index>> generate(const T* weights,
                                           const std::vector<std::vector<Index>>& sources,
                                           const train::OutputOptions& options) const;
  std::int64_t generation_bytes(Index source_length, const train::OutputOptions& options) const;
};

}  // namespace attn::tools
