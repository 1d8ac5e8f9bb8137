#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/runs/checkpoint_record.hpp"
#include "mechanisms/batch.hpp"

namespace attn::tools {

/// Changes the gradients with respect to the results of a mechanism, such as by an estimate, before
/// the gradients of the inputs are computed from them.
template <class T>
class MechanismEstimate {
 public:
  virtual ~MechanismEstimate() = default;

  /// Memory for each sequence of a piece, and additionally for `count` sequences.
  virtual std::int64_t sequence_bytes(const mechanisms::Sizes& sizes) const = 0;
  virtual std::int64_t working_bytes(const mechanisms::Sizes& sizes, Index count,
                                     int threads) const = 0;

  /// Changes the gradients with respect to the results of a piece, which all have data, 0 where the
  /// bundle has none; they are empty if no gradients are requested. The first sequence of the piece
  /// has the number `first`. Pieces come in order.
  virtual void change(const mechanisms::Batch<T>& piece, Index first,
                      const mechanisms::Tensors<T>& grad_results, int threads) = 0;

  /// Saves the sums of the pieces so far, from which another run continues.
  virtual void save(SavingArchive& to) = 0;
  virtual void load(LoadingArchive& from) = 0;

  /// Adds to the result of the report. Returns text for people.
  virtual std::string report(nlohmann::ordered_json& result) const = 0;
};

}  // namespace attn::tools
