#pragma once

#include <string>
#include <vector>

#include "common/shards/problem_share.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// The parts of one dataset of a run with divided problems.
class PieceJoin {
 public:
  /// The part in one shard.
  struct Part {
    std::string file;
    std::string source;  ///< the file's name for virtual datasets; empty: elements are copied
    const io::InputBundle* bundle;  ///< of the shard; bundle and piece must outlive the object
    const ProblemShare::Piece* piece;
  };

  /// `group` holds the dataset in every bundle. Throws Error(input) that names the file of a part
  /// that is missing, or that contradicts its marks or the other parts by its shape or type, and
  /// for blocks that no part or two parts hold.
  PieceJoin(std::string group, std::vector<Part> parts);

  /// The dataset's path below the root.
  const std::string& path() const { return path_; }

  /// Makes the whole dataset, with the attributes of its parts: a copy, or a virtual dataset if the
  /// parts have sources and its type can be virtual.
  void write(io::OutputBundle& output) const;

 private:
  void require_part(const Part& part) const;
  void require_each_block_once() const;
  void copy(const Part& part, io::OutputDataset& whole) const;
  std::vector<io::VirtualBlock> blocks(const Part& part) const;

  std::string group_;
  std::vector<Part> parts_;
  BlockLayout layout_;  // of the whole dataset
  std::string path_;
};

/// Whether a dataset of results can be virtual: it has axes, elements, and numbers of a suitable
/// type. Others are copied.
bool can_be_virtual(DType type, const Shape& shape);

}  // namespace attn::tools
