#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attn_compute/gradient_writer.hpp"
#include "common/checkpoint.hpp"
#include "common/divided_head.hpp"
#include "common/head_outputs.hpp"

namespace attn::tools {

/// Writes the output and the gradients of heads whose memory ranks divide, in pieces, as no whole
/// one need fit into memory. They also go to a checkpoint, if there is one, as the first part of
/// the head's unit: as an archived Buffer and vector of Buffers, like those of a whole head.
template <class T>
class DividedWriter {
 public:
  /// All must outlive it.
  DividedWriter(const AttentionInput& input, const DividedWants& wants, HeadOutputs& outputs,
                GradientWriter<T>& gradients, kernel::Ranks& ranks, Checkpoint* checkpoint);

  /// Where the rows of a head's own queries and keys go; all others are zeros.
  ShownRows<T> rows(Index problem) const;

  /// After these: completes what the head was the last to use.
  void end_head(Index problem) const;

  /// Writes what a checkpoint has of a head. Throws Error(input) if that has another size.
  void take(Index problem, LoadingArchive& from) const;

 private:
  // A matrix for each head.
  struct Result {
    std::string name;
    ShowRows<T> ShownRows<T>::*show;
    RowRange own;  // of all rows; the others are padding
    Index rows = 0;
    Index width = 0;

    std::size_t size() const { return static_cast<std::size_t>(rows * width); }
  };

  Result out(Index problem) const;
  std::vector<Result> gradients(Index problem) const;
  bool is_sum(const Result& result, Index problem) const;
  ShowRows<T> shown(const Result& result, Index problem, std::function<void()> begin) const;
  void put(const Result& result, Index problem, const GatheredRows<T>& rows) const;
  void put_zeros(const Result& result, Index problem, RowRange rows) const;
  void write(const Result& result, Index problem, Index first, Index count, const T* numbers) const;
  void save(const Result& result, const T* numbers, Index rows) const;
  void save_length(std::size_t size) const;
  void save_gradient_count(std::size_t count) const;
  void take(const Result& result, Index problem, LoadingArchive& from) const;

  const AttentionInput& input_;
  const DividedWants& wants_;
  HeadOutputs& outputs_;
  GradientWriter<T>& gradients_;
  kernel::Ranks& ranks_;
  Checkpoint* checkpoint_;
};

}  // namespace attn::tools
