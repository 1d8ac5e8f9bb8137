#pragma once

#include <cstdint>
#include <span>

#include "kernel/two_sided.hpp"
#include "pass/one_pass.hpp"
#include "pass/rank_rows.hpp"
#include "tensor/large_memory.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The Gibbs kernel of given scores (Cuturi 2013),
///
///   E_ij = exp((s_ij − g_j) − f_i),
///
/// for reference potentials f and g that bring it into the range of T (the stabilised kernel of
/// Schmitzer 2019), 0 where the pair is forbidden. Tiles span row_pass_partition's blocks by
/// row_tile_cols keys. Tiles of the first blocks are kept once they are made, as far as the given
/// memory goes; other tiles are made again at every call. On ranks, the first blocks are those of
/// this process's slots. The bits are the same either way.
template <class T>
class GibbsKernel final : public ExponentialTiles<T> {
 public:
  /// The reference is zero if scores are small enough (Scores::near_zero; in float64 |s| ≤ 350);
  /// else there is no reference yet. Takes at most `kept_bytes` of memory for tiles.
  GibbsKernel(const Scores<T>& scores, std::int64_t kept_bytes);

  /// Sets the reference potentials, (Lq) and (Lk); −inf masks a row or column. Empty spans remove
  /// the reference. Exponentials below the smallest normal number of T may be 0.
  void refer_to(std::span<const double> row, std::span<const double> col);

  /// Whether there is a reference.
  bool refers() const { return to_zero_ || !row_.empty(); }
  /// Whether both potentials are zero: E = exp(s).
  bool refers_to_zero() const { return to_zero_; }

  /// The reference; for a masked row or column +inf in place of −inf.
  double row_reference(Index i) const { return to_zero_ ? 0 : row_[static_cast<std::size_t>(i)]; }
  double col_reference(Index j) const { return to_zero_ ? 0 : col_[static_cast<std::size_t>(j)]; }

  const Partition& partition() const { return partition_; }
  const Scores<T>& scores() const { return scores_; }

  /// Whether the tile is kept and already made.
  bool has(const TileRange& range) const { return kept(range) && there_[at(range)] != 0; }

  /// E of one tile, in `room`. The tile begins at a multiple of row_tile_cols and of the blocks.
  /// Only one thread at a time may ask for tiles of a block. Throws whatever the scores throw.
  MatrixView<const T> tile(const TileRange& range, MatrixView<T> room,
                           typename Scores<T>::Scratch& scratch) override;

  /// For a kept tile: rows [first, first + kept_rows) of its block, as kernel::pack_rows packs
  /// them. In memory, they follow the same rows of the tile before; the next rows follow after all
  /// tiles. `first` is a multiple of kept_rows. If fewer rows are left, they are not packed but
  /// stored one after the other.
  const T* kept_tile(const TileRange& range, Index first) const { return place(range, first); }
  static constexpr Index kept_rows = kernel::two_sided_rows;

  /// Bytes of the tiles of `rows` rows.
  static std::int64_t bytes(Index rows, Index cols);

 private:
  Index block_of(const TileRange& range) const { return range.row0 / partition_.panel; }
  Index number_of(const TileRange& range) const {
    return number_[static_cast<std::size_t>(block_of(range))];
  }
  bool kept(const TileRange& range) const { return number_of(range) < kept_blocks_; }
  std::size_t at(const TileRange& range) const;
  T* place(const TileRange& range, Index first) const;
  void make(const TileRange& range, MatrixView<T> out, typename Scores<T>::Scratch& scratch) const;

  const Scores<T>& scores_;
  Partition partition_;
  bool to_zero_;
  PooledVector<double> row_;
  PooledVector<double> col_;
  Index kept_blocks_ = 0;
  PooledVector<Index>
      number_;        // by block: its place among the blocks of this process, else past the last
  LargeMemory kept_;  // by kept block; in a block its kept rows, by tile
  PooledVector<std::uint8_t> there_;  // by tile
};

/// Bytes of all tiles that a process can keep; with ranks, of the rank that has the most.
std::int64_t kept_kernel_bytes(Index rows, Index cols, std::size_t element_size,
                               const RankRows& ranks = {});

}  // namespace attn
