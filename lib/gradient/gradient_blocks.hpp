#pragma once

#include <cstdint>
#include <span>

#include "gradient/gradient_panels.hpp"
#include "pass/attention.hpp"
#include "pass/line_numbers.hpp"

namespace attn {

/// Gradients through the weights of some keys, under a softmax, dnas or hnas, whose queries come
/// block by block, so that neither all keys nor all queries need be in memory. The results have the
/// bits of differentiate over all queries and keys, if these are not small (is_small), whatever the
/// blocks. They begin at multiples of gradient_tile_rows and have at least 16 queries, unless there
/// are fewer; the bounds of their scores (Scores::Terms::bounds) are those of all queries and keys.
///
/// If needs_columns(), all blocks come by add_columns first. Then they come by `add`, in order.
template <class T>
class GradientBlocks {
 public:
  struct Options {
    Partition partition;   ///< of all keys: gradient_partition
    Index first_slot = 0;  ///< of those whose keys these are
    Index last_slot = 0;   ///< one past the last
    Scheme scheme = Scheme::unas;
    bool scores = false;  ///< whether gradients of the scores are wanted
    double hybrid = 1;    ///< u, 0 < u < 1, of hnas
  };
  explicit GradientBlocks(const Options& options);

  /// The partition that these gradients have.
  static Partition partition(Scheme scheme, bool scores, Index queries, Index keys);

  /// The keys that a block must have: those of the slots, and a few before them, so that tiles
  /// begin where those of all keys do.
  RowRange keys() const { return keys_; }
  RowRange own_keys() const { return own_; }  ///< those of the slots alone
  Index slots() const { return options_.last_slot - options_.first_slot; }

  /// What belongs to keys(), in memory that outlives this.
  struct Keys {
    MatrixView<const T> v;      ///< centred, see CentredValues
    std::span<const double> g;  ///< the potentials; empty: zeros
    MatrixView<T> grad_v;       ///< dV is written here; without data it is not wanted
    bool folds = false;         ///< see folds_rows
  };
  void use(const Keys& keys);

  /// Some queries.
  struct Block {
    const Scores<T>* scores = nullptr;  ///< with keys()
    MatrixView<const T> grad_out;
    std::span<const double> f;                             ///< the potentials
    std::span<const double> delta;                         ///< δ, see delta_of
    std::span<const double> unas_f = {}, unas_delta = {};  ///< of hnas: those of its second part
  };

  /// The sums of own_keys() so far. With these and the gradients so far, another object goes on.
  LineNumbers column_sums();

  bool needs_columns() const { return options_.scores && !is_softmax(options_.scheme); }
  void add_columns(const Block& block, int threads);

  /// `energies` see dE of the block and keys(), which is dS if there is no soft cap. A lane is a
  /// slot, counted from the first own one.
  void add(const Block& block, const PooledVector<GradientSink<T>*>& energies, int threads);

  /// Bytes that it takes with blocks of `queries` queries, sinks not included.
  static std::int64_t bytes(Scheme scheme, Index queries, Index keys, Index v_head_dim,
                            int threads);

 private:
  using Scratch = typename GradientPanels<T>::Scratch;

  WeightAdjoint<T> first_adjoint(const Block& block) const;
  WeightAdjoint<T> second_adjoint(const Block& block) const;
  template <class Body>
  void with_panels(const Block& block, PooledVector<WeightAdjoint<T>> adjoints,
                   const GradientTargets<T>& targets, const Body& body) const;
  template <class Body>
  void for_panels(int threads, const Body& body) const;

  Options options_;
  RowRange own_;
  RowRange keys_;
  Keys of_keys_;
  PooledVector<double> column_sums_;  // by key of keys_
};

}  // namespace attn
