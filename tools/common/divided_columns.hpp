#pragma once

#include "common/divided_run.hpp"
#include "pass/query_blocks.hpp"

namespace attn::tools {

/// A head under dnas, with the keys of the own slots and blocks of queries.
template <class T>
class DividedColumns : public DividedRun<T> {
 public:
  using DividedRun<T>::DividedRun;

  /// See HeadDivision::compute.
  std::optional<DividedHead> run(const ShowRows<T>& show);

 private:
  std::vector<TileRange> blocks_of(RowRange keys) const;
  void complete_columns();
  bool complete_rows(const TileRange& pairs, const ShowRows<T>& show);
  void require_whole(Index query) const;

  std::optional<QueryBlocks<T>> blocks_;
};

}  // namespace attn::tools
