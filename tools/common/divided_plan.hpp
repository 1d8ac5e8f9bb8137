#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/heads.hpp"
#include "pass/partition.hpp"
#include "score/band.hpp"

/// Ranks that divide the memory of long heads. Under a softmax each rank has neighbouring queries
/// and their output, and reads all keys and values by blocks, in the order of the keys. Under dnas
/// and hnas each has neighbouring keys and values, and reads all queries by blocks; the sums of a
/// block go from rank to rank. With column sums or entropies that is so for g alone, and the rest
/// is as under a softmax. For gradients each has neighbouring keys and values, and reads all
/// queries by blocks. Results have the bits of a head computed at once.
namespace attn::tools {

/// What is wanted of each head. The potentials are found in any case, see `both_ends`.
struct DividedWants {
  Scheme scheme = Scheme::unas;
  bool out = false;
  bool col_sum = false;
  bool row_entropy = false;
  bool grad_q = false;
  bool grad_k = false;
  bool grad_v = false;
  bool grad_gate = false;
  bool grad_sink = false;
  std::span<const double> hybrid = {};  ///< u by problem, of hnas
  std::int64_t kept_bytes = 0;          ///< of other results, which are kept meanwhile
  /// At the ends of hnas: the potentials of dnas and of unas, not only of the one that hnas is.
  bool both_ends = true;
  bool stops = false;  ///< whether a checkpoint keeps what is done of a head,
                       ///< so that results are shown at its end only

  bool gradients_of_scores() const { return grad_q || grad_k; }
  bool gradients_of_lines() const { return gradients_of_scores() || grad_v; }
  bool gradients() const { return gradients_of_lines() || grad_gate || grad_sink; }
  /// Whether dnas and hnas keep the output by rows: it cannot be shown before the head is complete.
  bool keeps_rows() const { return gradients() || (stops && out); }
  bool makes_out() const { return out || gradients(); }
  bool sees_weights() const { return col_sum || row_entropy; }
  Index parts() const { return scheme == Scheme::hnas ? 2 : 1; }  ///< of a mixture

  double hybrid_of(Index problem) const {
    return scheme == Scheme::hnas ? hybrid[static_cast<std::size_t>(problem)] : 1;
  }

  /// At its ends, u = 0 and 1, hnas is unas and dnas: all that is wanted of a head is that of one
  /// of these, but for the potentials of the other.
  bool is_end(Index problem) const {
    const double u = hybrid_of(problem);
    return scheme == Scheme::hnas && (u == 0 || u == 1);
  }
  /// The scheme that a head has in effect.
  Scheme scheme_of(Index problem) const {
    if (!is_end(problem)) return scheme;
    return hybrid_of(problem) == 1 ? Scheme::dnas : Scheme::unas;
  }
  DividedWants of_end(Scheme end, bool all) const {
    DividedWants wants{.scheme = end, .kept_bytes = kept_bytes, .stops = stops};
    wants.out = all && out;
    wants.col_sum = all && col_sum;
    wants.row_entropy = all && row_entropy;
    return wants;
  }
};

/// What ranks do one after the other, each of which cuts a head in another way.
enum class DividedStep {
  columns,   ///< keys: g of dnas and hnas, and without others all the rest
  rows,      ///< queries: rows as run_rows completes them
  far_rows,  ///< or, if scores or g are not near zero, as a pass by panels does
  gradients  ///< after these, keys
};

/// The steps of the forward run that may be taken: `far_rows` instead of `rows`.
std::vector<DividedStep> divided_steps(const DividedWants& wants);

/// How many of the heads are at an end of hnas.
Index count_ends(const AttentionInput& input, const DividedWants& wants);

/// How ranks divide the heads of an input.
struct DividedPlan {
  Index block = 0;           ///< keys or queries at a time
  Index gradient_block = 0;  ///< the same for gradients; where they read keys, as many of them
  int threads = 1;
  std::int64_t dense_limit = 0;        ///< see HeadReader
  std::int64_t bytes = 0;              ///< the expected use of memory by one rank
  std::int64_t whole_bytes = 0;        ///< what a whole head would need
  std::int64_t memory = 0;             ///< the limit
  std::vector<DividedPlan> ends = {};  ///< of dnas and unas, for heads at an end of hnas
};

/// The schemes at the ends of hnas, in the order of DividedPlan::ends.
inline constexpr Scheme end_schemes[] = {Scheme::dnas, Scheme::unas};

/// Nothing if heads are to be read whole. They are divided if all of this holds:
/// - there are several ranks;
/// - scores are made of q and k, as they are read, under the energies dot and scaled-dot, or read
///   themselves;
/// - there is a softmax, dnas, or hnas; if u of any head is 0 or 1, without gradients;
/// - gradients are those of q, k, v, gate and sink;
/// - there are at least 96 queries, or without a softmax keys, for each rank;
/// - a whole head does not fit into `memory` with all threads, or, under a softmax, its keys do not
///   fit one block of up to 16 MiB; and a part fits, or takes less than a whole head.
/// `needs` are those of a whole head. Throws the errors of require_readable.
std::optional<DividedPlan> find_division(const AttentionInput& input, const DividedWants& wants,
                                         std::size_t element_size, const HeadNeeds& needs,
                                         const cli::Arguments& arguments);

/// Throws Error(memory) that states the bytes needed if a part does not fit.
void require_room(const AttentionInput& input, Index ranks, const DividedPlan& plan);

/// find_division, then require_room.
std::optional<DividedPlan> plan_divided(const AttentionInput& input, const DividedWants& wants,
                                        std::size_t element_size, const HeadNeeds& needs,
                                        const cli::Arguments& arguments);

/// Blocks begin at multiples of this, as those of KeyBlocks and QueryBlocks must. A block should be
/// small beside what a rank has, and large beside what it costs to begin one.
inline constexpr Index divided_block_step = 1024;

/// The most bytes of one message when results or states are gathered.
inline constexpr std::int64_t divided_piece_bytes = std::int64_t{1} << 20;

/// The rows of `row_bytes` bytes of such a message, at least one.
inline Index rows_of_piece(std::int64_t row_bytes) {
  return std::max<Index>(1, divided_piece_bytes / std::max<std::int64_t>(1, row_bytes));
}

/// The partition of a head, of which each rank has neighbouring slots.
Partition divided_partition(const DividedWants& wants, DividedStep step, Index queries, Index keys,
                            std::size_t element_size);

/// By rank, one past its last slot: ranks get about the same number of allowed pairs, and at least
/// 96 lines or none.
std::vector<Index> cut_slots(const Partition& partition, const BandRule& rule, Index ranks);

/// The neighbouring slots of a partition that each rank has.
struct RankSlots {
  Partition partition;
  std::vector<Index> ends;  ///< see cut_slots

  Index first(int rank) const { return rank == 0 ? 0 : ends[static_cast<std::size_t>(rank - 1)]; }
  Index last(int rank) const { return ends[static_cast<std::size_t>(rank)]; }

  /// The lines of a rank, queries or keys, that follow from its slots.
  RowRange lines(int rank) const {
    return {partition.first_line(first(rank)), partition.first_line(last(rank))};
  }
};

}  // namespace attn::tools
