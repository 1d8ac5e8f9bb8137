#pragma once

namespace attn {

/// How scores become weights (MATHEMATICS.md §2): each scheme but transport is a pair of
/// potentials, π_ij = exp((s_ij − g_j) − f_i).
enum class Scheme {
  unas,  ///< g = 0, f_i = LSE_j s_ij: softmax (DN's LNAS)
  dnas,  ///< g_j = LSE_i s_ij, f_i = LSE_j(s_ij − g_j) (DN 7-8, EA 5)
  hnas,  ///< u·π_dnas + (1−u)·π_unas (DN §6, EA 12)
  /// Softmax, as unas. The scores contain a log-preference, and the energy's scale contains α
  /// (FD 17).
  fenchel,
  sinkhorn,  ///< repeats the two half-steps of dnas, towards given marginals (DN 10, EA 10)
  /// Σ_i u_i K_ji exp(s_j) / Z_i with Z_i = Σ_j K_ji exp(s_j) and K = exp(−M/γ): each key i as a
  /// source sends its preference u_i to the keys j, at the cost M(j,i) (FD 24, 37). Has no pair of
  /// potentials. The energy's scale contains α/γ.
  transport,
};

/// Whether only rows are normalised.
constexpr bool is_softmax(Scheme scheme) {
  return scheme == Scheme::unas || scheme == Scheme::fenchel;
}

/// Whether the weights of a query depend on no other query.
constexpr bool is_by_query(Scheme scheme) {
  return is_softmax(scheme) || scheme == Scheme::transport;
}

}  // namespace attn
