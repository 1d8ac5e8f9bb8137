#pragma once

#include "common/divided_gradient.hpp"

namespace attn::tools {

/// A head under dnas or hnas, with the keys of the own slots and blocks of queries.
template <class T>
class DividedColumns : public DividedGradient<T> {
 public:
  using DividedGradient<T>::DividedGradient;

  /// See HeadDivision::compute.
  std::optional<DividedHead> run(const ShownRows<T>& show);

 private:
  void describe(DividedState& state);
  void resume();
  void keep_rows();
  void keep(Index first, MatrixView<const T> rows);
  bool complete_rows(const TileRange& pairs, const ShowRows<T>& show);
  void require_whole(Index query) const;

  // If rows are kept: which those of each rank are, and the own ones.
  RankSlots slots_of_rows_;
  Buffer<T> out_;
};

}  // namespace attn::tools
