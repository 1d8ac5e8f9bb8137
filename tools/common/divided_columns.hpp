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
  bool forward(const ShowRows<T>& show);
  bool shows_blocks() const { return this->wants_.out && !this->wants_.keeps_rows(); }
  void describe(DividedState& state);
  void resume();
  void keep_rows();
  void keep(Index first, MatrixView<const T> rows);
  bool complete_rows(const TileRange& pairs, const ShowRows<T>& show);
  void require_whole(Index query) const;
};

}  // namespace attn::tools
