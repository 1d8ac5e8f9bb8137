#pragma once

#include "common/divided_potential.hpp"

namespace attn::tools {

/// A head under dnas or hnas, with the keys of the own slots and blocks of queries.
template <class T>
class DividedColumns : public DividedPotential<T> {
 public:
  using DividedPotential<T>::DividedPotential;

  /// See HeadDivision::compute.
  std::optional<DividedHead> run(const ShowRows<T>& show);

 private:
  bool complete_rows(const TileRange& pairs, const ShowRows<T>& show);
  void require_whole(Index query) const;
};

}  // namespace attn::tools
