#pragma once

#include <memory>
#include <vector>

#include "cli/report.hpp"
#include "common/outputs/block_layout.hpp"
#include "common/shards/problem_share.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// A dataset of results that is written block by block. In a shard it holds only the own blocks,
/// one after the other, and the share notes where they belong.
class BlockOutput {
 public:
  /// Creates the dataset and lists it in the report. `share` is null if the run is not divided;
  /// else it must outlive the object, and problem n uses block `block_of[n]` (empty: n itself;
  /// below 0: none).
  BlockOutput(io::OutputBundle& bundle, DType type, BlockLayout layout, ProblemShare* share,
              cli::Report& report, const std::vector<Index>& block_of = {});

  io::OutputDataset dataset() const { return dataset_; }

  /// Where a block lies in the dataset.
  BlockBox box(Index block) const;

  /// Writes a whole block.
  template <class T>
  void write(Index block, const T* values) {
    const BlockBox at = box(block);
    dataset_.write(at.start, at.count, values);
  }

  /// Writes lines [first, first + count) along the block's first own axis.
  template <class T>
  void write_lines(Index block, Index first, Index count, const T* values) {
    BlockBox at = box(block);
    const std::size_t axis = layout_.own_axes().front();
    at.start[axis] += first;
    at.count[axis] = count;
    dataset_.write(at.start, at.count, values);
  }

 private:
  BlockLayout layout_;  // of the dataset itself
  bool divided_;
  std::vector<Index> blocks_;  // of a shard
  io::OutputDataset dataset_;
};

}  // namespace attn::tools
