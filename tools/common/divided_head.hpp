#pragma once

#include <optional>
#include <vector>

#include "common/checkpoint.hpp"
#include "common/divided_plan.hpp"
#include "common/divided_state.hpp"
#include "common/gathered_rows.hpp"
#include "common/head_reader.hpp"

namespace attn::tools {

/// A head as every rank has it after all have computed it, without its output: vectors of all
/// queries and keys but padding.
struct DividedHead {
  Attention attention;
  std::vector<double> col_sum, row_entropy;  ///< without the sink's own entropy
  double least_bias = 0;                     ///< see Head::least_bias
};

/// Takes what is wanted of a head, in pieces; with a checkpoint in this order, as a unit has it.
template <class T>
struct ShownRows {
  ShowRows<T> out;
  ShowRows<T> grad_q, grad_k, grad_v;
  ShowRows<T> grad_sink;  ///< one row of one number, which all ranks have
  ShowRows<T> grad_gate;  ///< with a gate that all queries share one row, which all ranks have
};

/// Computes heads. Called by all ranks in the same order, on one thread.
template <class T>
class HeadDivision {
 public:
  /// All must outlive it. With a checkpoint, `wants` must say so (DividedWants::stops); a head goes
  /// on from its state.
  HeadDivision(const AttentionInput& input, const DividedWants& wants, const DividedPlan& plan,
               Checkpoint* checkpoint = nullptr);

  /// Nothing if the head must be computed whole, because without a softmax the sums of some query
  /// are too small (QueryBlocks::complete_rows), which is not so if column sums or entropies are
  /// wanted; rows of the output may have been shown nevertheless, not with a checkpoint. With
  /// gradients a small head (is_small) is computed whole by every rank. Throws Error(memory) if a
  /// whole head does not fit, what HeadReader throws, and the errors of the scores; ranks may throw
  /// different ones.
  /// `progress` is kept in states of the head; it goes on from one of the same part. At an end of
  /// hnas of which both_ends are wanted, the head itself has two parts: `progress` is that of none.
  std::optional<DividedHead> compute(Index problem, const ShownRows<T>& show,
                                     const DividedProgress& progress = {});

  double seconds() const { return seconds_; }  ///< of all heads, without reading

 private:
  std::optional<DividedHead> compute_end(Index problem, const ShownRows<T>& show,
                                         DividedProgress progress);
  std::optional<DividedHead> compute_as(Scheme scheme, bool all, Index problem,
                                        const ShownRows<T>& show, const DividedProgress& progress);

  const AttentionInput& input_;
  const DividedWants& wants_;
  const DividedPlan& plan_;
  HeadReader<T> reader_;
  Checkpoint* checkpoint_;
  double seconds_ = 0;
};

}  // namespace attn::tools
