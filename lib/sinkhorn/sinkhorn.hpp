#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "attnkit/transport.hpp"
#include "pass/pass.hpp"
#include "sinkhorn/gibbs_kernel.hpp"
#include "sinkhorn/scaling_pass.hpp"
#include "sinkhorn/sinkhorn_state.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// log a (Lq) and log b (Lk) for the row sums a and column sums b of the plan; empty: all are 1.
/// −inf closes a line.
struct LogMarginals {
  std::span<const double> row;
  std::span<const double> col;
  std::optional<MarginalPenalties> penalties = {};  ///< in units of the scores; none: exact sums
};

/// The distance of a plan from its marginals: Σ_i |r_i − a_i| and Σ_j |c_j − b_j| of its sums r and
/// c. With penalties, a_i and b_j are the sums that the potentials imply (soft_marginals.hpp).
struct MarginalErrors {
  double row = 0;
  double col = 0;
};

/// Receives the errors of the latest iteration's plan. Returns the relaxation of the next iteration
/// (1: none), or nothing, to stop.
using IterationCallback = std::function<std::optional<double>(const MarginalErrors&)>;

/// Receives the state of an iteration that is about to begin. The callback may throw.
using IterationWatch = std::function<void(IterationState&&)>;

/// Sinkhorn's iterations on potentials (MATHEMATICS.md §2; DN 10, EA 10), each one pass over the
/// scores:
///
///   fᵗ_i = LSE_j(s_ij − gᵗ_j) − log a_i,   gᵗ⁺¹_j = LSE_i(s_ij − fᵗ_i) − log b_j
///
/// for g¹ with f⁰ = 0. A block of queries gets its f and then adds its part to the next g. While
/// the factors κ = exp(−g) and ρ = a/r relative to the reference of a Gibbs kernel are small enough
/// for the format, an iteration uses products with the kernel, r = E κ, c = Eᵀ ρ. Otherwise, and
/// while there is no reference, it removes the maxima of the rows, which gives the kernel a new
/// reference (the absorption of Schmitzer 2019). Closed lines, and lines with nothing allowed, have
/// −inf.
///
/// With penalties ρ_a and ρ_b, potentials are ρ/(ρ + 1) times those above, and an iteration ends
/// with the translation g + t of soft_translation. `step` and `show` know no penalties.
///
/// Relative error of exp f and exp g: about 1e-6 in float32, 1e-14 in float64, plus the error of
/// the scores. The bits depend neither on the kept tiles nor on the number of threads. Throws
/// whatever the scores throw.
template <class T>
class SinkhornIteration {
 public:
  /// The spans of `marginals` must outlive the object. The kernel keeps tiles in at most
  /// `kept_bytes`.
  SinkhornIteration(const Scores<T>& scores, const LogMarginals& marginals, std::int64_t kept_bytes,
                    int threads);
  SinkhornIteration(const SinkhornIteration&) = delete;
  SinkhornIteration& operator=(const SinkhornIteration&) = delete;

  /// g¹ (Lk).
  void start(std::span<double> col);

  /// From g = gᵗ (Lk), given by start or a step, computes f = fᵗ (Lq) and `next` = gᵗ⁺¹ (Lk).
  void step(std::span<double> col, std::span<double> row, std::span<double> next);

  /// Steps from g = gᵗ (Lk) until `callback` stops. `row` and `col` are then the potentials whose
  /// errors it received last. While potentials stay near the kernel's reference, an iteration costs
  /// only its products, without exponentials or logarithms; farther off, the kernel absorbs them.
  /// With a relaxation ω ≠ 1 (over-relaxed, Thibault et al. 2017) and the previous potentials fᵗ⁻¹,
  /// gᵗ,
  ///
  ///   fᵗ ← fᵗ⁻¹ + ω (fᵗ − fᵗ⁻¹),   gᵗ⁺¹ ← gᵗ + ω (gᵗ⁺¹ − gᵗ),
  ///
  /// if there is a kernel. Rounding of the errors: about 1e-7 of the marginals in float32. With
  /// `from`, resumes the iteration whose `watch` received that state, with the same scores,
  /// marginals and callback; `col` is then not read. `watch` may be empty.
  void iterate(std::span<double> col, std::span<double> row, const IterationCallback& callback,
               const IterationWatch& watch = {}, const IterationState* from = nullptr);

  /// For symmetric scores, a = b and ρ_a = ρ_b. Steps fᵗ⁺¹ = (fᵗ + LSE_j(s_ij − fᵗ_j) − log a_i)/2,
  /// where a penalty multiplies the new term as above, from f =
  /// `potential` (Lq), −inf where a is 0, until `callback` stops. `potential` is then the f whose
  /// errors it received last. The callback's relaxation is not used. For kernels without negative
  /// eigenvalues, such as those of |x − y|², errors fall at least by half (Feydy et al. 2019);
  /// alternating steps are slow there, as the plan is nearly diagonal.
  void iterate_symmetric(std::span<double> potential, const IterationCallback& callback);

  /// The reference of the kernel, on which the bits of the next step depend; the state has no other
  /// member. The setter must be called before the first step.
  IterationState reference() const { return state(1, false); }
  void set_reference(const IterationState& reference) {
    if (!reference.refers_to_zero) {
      kernel_.refer_to(reference.row_reference, reference.col_reference);
    }
  }

  /// Computes f from g and shows the weights; the same as show_rows if all rows have the marginal
  /// 1.
  void show(std::span<double> col, std::span<double> row, const ObserverList<T>& observers);

 private:
  /// Why a run of products ended.
  enum class Left { ended, range };

  void removing_maxima(std::span<double> col, std::span<double> row, std::span<double> next);
  bool symmetric_product(std::span<const double> potential, std::span<double> exact);
  MarginalErrors soft_maxima(std::span<double> col, std::span<double> row, std::span<double> next);
  bool by_products(std::span<const double> col, std::span<double> row, std::span<double> next);

  bool find_factors(std::span<const double> col, PooledVector<double>& factor) const;
  bool rows_in_range(std::span<const double> sum, std::span<const double> factor) const;
  bool can_absorb(std::span<const double> row, std::span<const double> col) const;
  PooledVector<double> soft_shift() const;
  MarginalErrors soft_errors(std::span<const double> row_sum, std::span<const double> col_sum,
                             std::span<const double> row_factor, std::span<const double> col_factor,
                             bool relaxed) const;
  MarginalErrors product_errors(std::span<const double> row_sum, std::span<const double> col_sum,
                                std::span<const double> row_factor,
                                std::span<const double> col_factor, bool relaxed) const;
  bool next_columns(std::span<const double> sum, double relaxation, std::span<double> factor) const;
  bool soft_columns(std::span<const double> row, std::span<const double> sum,
                    std::span<const double> factor, double relaxation,
                    std::span<double> next) const;
  MarginalErrors errors_of(std::span<const double> col, std::span<const double> row,
                           std::span<const double> next) const;
  void set_row_potentials(std::span<const double> factor, std::span<double> row) const;
  void set_col_potentials(std::span<const double> factor, std::span<double> col) const;
  Left products(std::span<double> col, std::span<double> row, bool have_row,
                std::optional<double>& relaxation, const IterationCallback& callback,
                const IterationWatch& watch, const IterationState* from);
  IterationState state(double relaxation, bool have_row) const;

  const Scores<T>& scores_;
  LogMarginals marginals_;
  PooledVector<double> row_marginal_;  // a; empty: all 1
  PooledVector<double> col_marginal_;  // b; empty: all 1
  int threads_;
  GibbsKernel<T> kernel_;
  ScalingPasses<T> passes_;
};

/// Bytes that a SinkhornIteration takes in addition to the kept tiles.
std::int64_t sinkhorn_bytes(Index rows, Index cols, std::size_t element_size, int threads);

}  // namespace attn
