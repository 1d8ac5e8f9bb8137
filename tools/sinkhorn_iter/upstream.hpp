#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "head/head_reader.hpp"
#include "head/matrix_operand.hpp"
#include "head/operand.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// Derivatives of a number by the results of transport: the datasets grad_plan, grad_row_potential
/// and grad_col_potential; with `histograms` also grad_barycentre; for a divergence,
/// grad_row_self_potential and grad_col_self_potential in place of grad_plan.
struct UpstreamInput {
  /// The derivatives in a bundle; nothing if it has none. Throws Error(input) for shapes that do
  /// not fit.
  static std::optional<UpstreamInput> read(const io::InputBundle& bundle, const Shape& leading,
                                           Index queries, Index keys,
                                           std::optional<Index> histograms, bool of_divergence);

  std::optional<Operand> plan;      ///< broadcasts to (…, Lq, Lk)
  std::optional<Operand> row, col;  ///< (…, Lq), (…, Lk); of histograms (…, K, Lq), (…, K, Lk)
  std::optional<Operand> masses;              ///< by a barycentre, (…, Lq)
  std::optional<Operand> row_self, col_self;  ///< (…, Lq), (…, Lk)

  std::vector<ArraySource> datasets() const;
};

/// The derivatives of one head, of its own queries and keys; absent ones are empty. Matrices of up
/// to `dense_limit` bytes are held in memory. Throws Error(input) naming dataset and index of a
/// number that is not finite.
template <class T>
struct OwnUpstream {
  OwnUpstream(const std::optional<UpstreamInput>& from, const Head<T>& head,
              std::int64_t dense_limit);

  std::shared_ptr<OperandMatrix<T>> plan;
  std::vector<double> row, col, masses, row_self, col_self;
};

}  // namespace attn::tools
