#pragma once

#include "common/divided_run.hpp"
#include "pass/key_blocks.hpp"

namespace attn::tools {

/// A head under a softmax, with the queries of the own slots and blocks of keys.
template <class T>
class DividedSoftmax : public DividedRun<T> {
 public:
  using DividedRun<T>::DividedRun;

  DividedHead run(const ShowRows<T>& show);

 private:
  std::vector<TileRange> blocks_of(RowRange queries) const;
  void complete_rows();
  void add_columns();
  void gather_rows(const ShowRows<T>& show);

  std::optional<KeyBlocks<T>> blocks_;
  Buffer<T> out_;  // of the own queries
};

}  // namespace attn::tools
