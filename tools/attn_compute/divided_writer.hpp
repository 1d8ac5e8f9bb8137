#pragma once

#include <string>

#include "attn_compute/gradient_writer.hpp"
#include "common/divided_head.hpp"
#include "common/head_outputs.hpp"

namespace attn::tools {

/// Writes the output and the gradients of heads whose memory ranks divide, in pieces, as no whole
/// one need fit into memory.
template <class T>
class DividedWriter {
 public:
  /// All must outlive it.
  DividedWriter(const AttentionInput& input, const DividedWants& wants, HeadOutputs& outputs,
                GradientWriter<T>& gradients, kernel::Ranks& ranks)
      : input_(input), wants_(wants), outputs_(outputs), gradients_(gradients), ranks_(ranks) {
    gradients.divide(ranks);
  }

  /// Where the rows of a head's own queries and keys go.
  ShownRows<T> rows(Index problem) const;

  /// After these: writes zeros for the others, and completes what the head was the last to use.
  void end_head(Index problem) const;

 private:
  ShowRows<T> out(Index problem) const;
  ShowRows<T> gradient(const std::string& name, Index problem) const;

  const AttentionInput& input_;
  const DividedWants& wants_;
  HeadOutputs& outputs_;
  GradientWriter<T>& gradients_;
  kernel::Ranks& ranks_;
};

}  // namespace attn::tools
