#pragma once

#include "common/divided_run.hpp"
#include "pass/query_blocks.hpp"

namespace attn::tools {

/// A head under dnas or hnas: begins with g, for which each rank has the keys of its slots and
/// takes the queries by blocks.
template <class T>
class DividedPotential : public DividedRun<T> {
 public:
  using DividedRun<T>::DividedRun;

 protected:
  /// Looks at all parts, and completes g.
  void find_columns();

  std::optional<QueryBlocks<T>> columns_;
};

}  // namespace attn::tools
