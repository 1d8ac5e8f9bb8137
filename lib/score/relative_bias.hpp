#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "score/band.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// A bias that depends only on j − p_i, the distance of key j from query i at position p_i = i +
/// offset. Lq + Lk − 1 finite numbers, computed once.
template <class T>
class RelativeBias {
 public:
  /// `values` (Lq + Lk − 1; empty if either length is 0): pair (i, j) has values[j − i + Lq − 1].
  /// Throws Error(input) if one is not finite.
  RelativeBias(Index rows, Index cols, PooledVector<T> values);

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }

  /// row(i)[j] is the bias of pair (i, j).
  const T* row(Index i) const { return values_.data() + (rows_ - 1 - i); }

  /// No bias is larger in magnitude.
  double bound() const { return bound_; }

 private:
  Index rows_;
  Index cols_;
  PooledVector<T> values_;
  double bound_ = 0;
};

/// T5's rule that sorts relative positions into buckets.
struct BucketRule {
  bool bidirectional = true;  ///< false: all keys ahead of the query share bucket 0
  Index buckets = 32;         ///< in all; bidirectional gives each side half of them
  Index max_distance = 128;   ///< from here on, all positions share the last bucket of their side
};

/// Throws Error(input) if there are too few buckets (fewer than 2, or 4 if bidirectional), or if
/// max_distance is not beyond the distances that have a bucket each.
void require_buckets(const BucketRule& rule);

/// The bucket of `relative` = key minus query position, as Hugging Face's T5 computes it, float32
/// roundings included. On a side of n buckets, the first n/2 distances have a bucket each; the
/// other buckets cover distances in geometric progression up to max_distance. Keys ahead of the
/// query use the second half. Requires a rule that require_buckets accepts. (MATHEMATICS.md §4; FD
/// 18-19)
Index t5_bucket(Index relative, const BucketRule& rule);

/// Column `head` of rel_bias (buckets, H), at the bucket of j − p_i; bidirectional unless `band` is
/// causal.
/// Throws what require_buckets throws, and Error(input) if a bias is not finite.
template <class T>
RelativeBias<T> t5_relative_bias(MatrixView<const T> rel_bias, Index head, Index rows, Index cols,
                                 const BandRule& band, Index max_distance = 128);

/// The slopes of ALiBi (Press et al., ICLR 2022), largest first: 2^(−8h/H), h = 1 … H, if H is a
/// power of two. Otherwise the slopes for the next lower power n, then every other slope for 2n,
/// beginning with the first.
std::vector<double> alibi_slopes(Index heads);

/// −slope·|p_i − j|, which is slope·(j − p_i) where causality allows j. Each is correctly rounded
/// to T from float64.
template <class T>
RelativeBias<T> alibi_bias(double slope, Index rows, Index cols, const BandRule& band);

/// Bytes that a relative bias holds.
std::int64_t relative_bias_bytes(Index rows, Index cols, std::size_t element_size);

}  // namespace attn
