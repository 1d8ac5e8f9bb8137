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
                GradientWriter<T>& gradients)
      : input_(input), wants_(wants), outputs_(outputs), gradients_(gradients) {}

  /// Where the rows of a head's own queries and keys go.
  ShownRows<T> rows(Index problem) const;

  /// Writes zeros for the others.
  void write_padding(Index problem) const;

 private:
  ShowRows<T> out(Index problem) const;
  ShowRows<T> gradient(const std::string& name, Index problem) const;

  const AttentionInput& input_;
  const DividedWants& wants_;
  HeadOutputs& outputs_;
  GradientWriter<T>& gradients_;
};

}  // namespace attn::tools
