#include "common/outputs/block_output.hpp"

#include <algorithm>
#include <utility>

namespace attn::tools {
namespace {

// The layout of a shard's dataset: its blocks lie along the first axis.
BlockLayout compact(const BlockLayout& layout, Index blocks) {
  BlockLayout own{layout.name, join({blocks}, layout.own()), {0}, {""}};
  if (!layout.chunk.empty()) own.chunk = {1};
  for (const std::size_t axis : layout.own_axes()) {
    if (axis < layout.labels.size()) own.labels.push_back(layout.labels[axis]);
    if (!layout.chunk.empty()) own.chunk.push_back(layout.chunk[axis]);
  }
  return own;
}

std::vector<Index> own_blocks(const ProblemShare* share, const std::vector<Index>& block_of) {
  if (share == nullptr) return {};
  return block_of.empty() ? share->own() : share->blocks(block_of);
}

io::OutputDataset create(io::OutputBundle& bundle, DType type, const BlockLayout& layout,
                         cli::Report& report) {
  io::OutputDataset dataset =
      bundle.create(layout.name, type, layout.shape, layout.labels, layout.chunk);
  report.output(layout.name, bundle.address_of(layout.name), layout.shape, type);
  return dataset;
}

}  // namespace

BlockOutput::BlockOutput(io::OutputBundle& bundle, DType type, BlockLayout layout,
                         ProblemShare* share, cli::Report& report,
                         const std::vector<Index>& block_of)
    : layout_(share == nullptr
                  ? layout
                  : compact(layout, static_cast<Index>(own_blocks(share, block_of).size()))),
      divided_(share != nullptr),
      blocks_(own_blocks(share, block_of)),
      dataset_(create(bundle, type, layout_, report)) {
  if (share != nullptr) share->add({std::move(layout), blocks_});
}

BlockBox BlockOutput::box(Index block) const {
  if (!divided_) return box_of(layout_, block);
  const auto found = std::lower_bound(blocks_.begin(), blocks_.end(), block);
  return box_of(layout_, found - blocks_.begin());
}

}  // namespace attn::tools
