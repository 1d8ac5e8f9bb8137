#pragma once

#include <string>

#include "attn_compute/gradient_writer.hpp"
#include "common/checkpoint.hpp"
#include "common/divided_head.hpp"
#include "common/head_outputs.hpp"

namespace attn::tools {

/// Writes the output and the gradients of heads whose memory ranks divide, in pieces, as no whole
/// one need fit into memory. The output also goes to a checkpoint, if there is one, as the first
/// part of the head's unit: as an archived Buffer, like that of a whole head.
template <class T>
class DividedWriter {
 public:
  /// All must outlive it.
  DividedWriter(const AttentionInput& input, const DividedWants& wants, HeadOutputs& outputs,
                GradientWriter<T>& gradients, kernel::Ranks& ranks, Checkpoint* checkpoint);

  /// Where the rows of a head's own queries and keys go.
  ShownRows<T> rows(Index problem) const;

  /// After these: writes zeros for the others, and completes what the head was the last to use.
  void end_head(Index problem) const;

  /// Writes the output that a checkpoint has. Throws Error(input) if it has another size.
  void take_out(Index problem, LoadingArchive& from) const;

 private:
  ShowRows<T> out(Index problem) const;
  void begin_out(Index problem) const;
  std::size_t out_size() const;
  ShowRows<T> gradient(const std::string& name, Index problem) const;

  const AttentionInput& input_;
  const DividedWants& wants_;
  HeadOutputs& outputs_;
  GradientWriter<T>& gradients_;
  kernel::Ranks& ranks_;
  Checkpoint* checkpoint_;
};

}  // namespace attn::tools
