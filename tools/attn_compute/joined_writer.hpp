#pragma once

#include "cli/report.hpp"
#include "common/heads/attention_input.hpp"
#include "common/outputs/block_output.hpp"
#include "io/output.hpp"
#include "pass/row_selection.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// Joins the heads of each sequence and writes `joined` (…, Lq, D): row i is the concatenation of
/// the heads' out_i, times wo and plus bo if present. Rows of padding are 0.
template <class T>
class JoinedWriter {
 public:
  /// Creates the dataset and lists it in the report. Requires AttentionInput::take_join. With
  /// `chosen`, joined has only these queries. `input` and `chosen` must outlive the object.
  JoinedWriter(io::OutputBundle& output, const AttentionInput& input, const RowSelection* chosen,
               cli::Report& report);

  /// Takes out (count, dv) of the next head, with rows of padding, and only with chosen rows. Heads
  /// come in order. Runs on up to `threads` threads, on which the bits do not depend. Throws
  /// Error(numerical) if a sum is beyond the range of T, Error(input) for a wo or bo that is not
  /// finite.
  void add(Index problem, const T* out, int threads);

 private:
  void begin(Index problem);
  void finish(Index problem);

  const AttentionInput& input_;
  const RowSelection* chosen_;
  Index count_;  // queries of the dataset
  BlockOutput dataset_;
  Buffer<T> wo_;  // of one head
  Buffer<T> bo_;
  Buffer<T> joined_;  // of one sequence
};

/// Bytes that a JoinedWriter holds for `count` queries.
std::int64_t joined_bytes(const AttentionInput& input, Index count, std::size_t element_size);

}  // namespace attn::tools
