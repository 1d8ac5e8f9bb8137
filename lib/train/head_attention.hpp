#pragma once

#include <string>
#include <vector>

#include "train/parameters.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

struct HeadAttentionOptions {
  AttentionScheme scheme;
  bool causal = false;
  Index heads = 1;
  Index depth = 0;               ///< d of queries, keys and values
  Index positions = 0;           ///< for learned preferences: the most keys of a sequence
  double first_share = 0.5;      ///< u of hnas at the start, in (0, 1)
  bool in_paths = false;         ///< no bit depends on the scale of the weights of q and k
  bool constant_values = false;  ///< v is data without a gradient
};

/// Attention of several heads between given queries, keys and values: scores q kᵀ/√d, weights π by
/// the scheme, out = π v. The share of hnas is u = 1/(1 + exp(−ρ)), ρ one number or one per head.
/// Under fenchel and transport, the key at position j has the preference u_j ∝ exp(ρ_j), the same
/// in all heads and at first for all keys. Expectation-maximisation has no dropout of weights.
class HeadAttention {
 public:
  /// Adds PREFIXrho under hnas, PREFIXlog_preference (positions) under fenchel and transport.
  /// `place` is the number of the dropout of weights; see Dropout.
  HeadAttention(Parameters& parameters, const std::string& prefix,
                const HeadAttentionOptions& options, std::uint32_t place);

  /// The same tensors, with another number for the dropout of weights.
  HeadAttention with_place(std::uint32_t place) const {
    HeadAttention copy = *this;
    copy.dropout_place_ = place;
    return copy;
  }

  template <class T>
  struct Kept {
    OwnedMatrix<T> q, k, v, out;  ///< (sequences, heads, positions, d)
    /// (sequences, heads, positions): potentials, from which the backward pass starts.
    OwnedMatrix<double> row_potential, col_potential, unas_row_potential;
  };

  /// Computes all other members of `kept` from q, k and v.
  template <class T>
  void forward(const Slot<T>& slot, const Sequences& queries, const Sequences& keys,
               Kept<T>& kept) const;

  /// ∂L/∂q, ∂L/∂k and ∂L/∂v; the last one is empty for constant values.
  template <class T>
  struct Gradients {
    OwnedMatrix<T> q, k, v;
  };

  /// The gradients for grad_out = ∂L/∂out. Writes the gradients of ρ, or adds to them if `adds`.
  template <class T>
  Gradients<T> backward(const Slot<T>& slot, const Sequences& queries, const Sequences& keys,
                        const Kept<T>& kept, const OwnedMatrix<T>& grad_out,
                        bool adds = false) const;

  /// c_j = Σ_i π_ij of π without dropout, (sequences, heads, keys); 0 for padding.
  template <class T>
  OwnedMatrix<double> column_sums(const Slot<T>& slot, const Sequences& queries,
                                  const Sequences& keys, const Kept<T>& kept) const;

  /// π without dropout, (sequences, heads·queries·keys).
  template <class T>
  OwnedMatrix<T> weights(const Slot<T>& slot, const Sequences& queries, const Sequences& keys,
                         const Kept<T>& kept) const;

  /// π v of queries that see all these keys, which may differ from the keys of `forward`. Requires
  /// unas, where weights do not depend on other queries. Throws Error(usage) for any other scheme.
  template <class T>
  OwnedMatrix<T> attend(const Slot<T>& slot, const Sequences& queries, const Sequences& keys,
                        const OwnedMatrix<T>& q, const OwnedMatrix<T>& k,
                        const OwnedMatrix<T>& v) const;

  /// The bytes without the plan, which takes plan_bytes.
  template <class T>
  PassBytes bytes(const Sequences& queries, const Sequences& keys) const;
  template <class T>
  PlanBytes plan_bytes(const Sequences& queries, const Sequences& keys) const {
    return AttentionPlans<T>::bytes(extents(queries, keys));
  }

  const HeadAttentionOptions& options() const { return options_; }

  /// The shares u for given weights; none unless the scheme is hnas.
  template <class T>
  std::vector<double> shares(const T* weights) const;

 private:
  AttentionExtents extents(const Sequences& queries, const Sequences& keys) const;
  bool has_shares() const { return !options_.scheme.em && options_.scheme.scheme == Scheme::hnas; }

  Index rho_count() const { return options_.scheme.share_by_head ? options_.heads : 1; }

  // The operands of a plan that are not q, k and v.
  template <class T>
  struct Terms {
    std::vector<double> shares;
    std::vector<T> preference, cost;
  };
  template <class T>
  Terms<T> terms(const T* weights, Index keys) const;
  template <class T>
  static AttentionInputs<T> inputs_of(const AttentionExtents& extents, const OwnedMatrix<T>& q,
                                      const OwnedMatrix<T>& k, const OwnedMatrix<T>& v,
                                      const Sequences& queries, const Sequences& keys,
                                      const Terms<T>& terms);

  HeadAttentionOptions options_;
  Index rho_ = 0;  // of hnas, or of the preferences
  std::uint32_t dropout_place_;
};

}  // namespace attn::train
