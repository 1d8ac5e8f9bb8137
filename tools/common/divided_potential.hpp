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
  /// Looks at all parts, and completes g, unless it is taken from a state of a later step.
  void find_columns();

  /// What a state of a later step holds of g and, if `with_sums`, of columns_.
  void describe_columns(DividedState& state, bool with_sums);

  int column_rounds_ = 1;  ///< the same in all ranks, once g is complete
  /// Before a state with these is loaded.
  void resume_columns(bool complete);

  std::optional<QueryBlocks<T>> columns_;

 private:
  void find_sums();
};

}  // namespace attn::tools
