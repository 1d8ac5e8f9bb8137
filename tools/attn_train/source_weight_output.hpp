#pragma once

#include <vector>

#include "io/output.hpp"
#include "train/pair_batches.hpp"
#include "train/source_weights.hpp"

namespace attn::tools {

/// The group of these datasets: each attention NAME has weights/NAME/weights.
inline const std::string source_weight_group = "weights";

/// Writes the weights of attention to the source, slot by slot, for all pairs of a split in their
/// order: for each attention the datasets weights (pairs, heads, J, I), or (pairs, J, I) without
/// heads, target_length and source_length (pairs). Row j belongs to word j of the target; </s> has
/// no row. Padding is 0. alignment-attention measure reads such a group.
template <class T>
class SourceWeightOutput {
 public:
  SourceWeightOutput(io::OutputBundle& bundle, const std::vector<train::TokenPair>& pairs);

  /// The weights of the next pairs, of all attentions.
  void add(const train::SlotBatch& batch, const std::vector<train::SourceWeights<T>>& all);

 private:
  void create(const std::vector<train::SourceWeights<T>>& all);

  io::OutputBundle& bundle_;
  const std::vector<train::TokenPair>& pairs_;
  Index words_;   // the most of a target
  Index places_;  // the most of a source
  std::size_t next_ = 0;
  std::vector<io::OutputDataset> datasets_;
};

}  // namespace attn::tools
