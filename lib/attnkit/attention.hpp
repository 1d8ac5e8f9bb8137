#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attnkit/causal.hpp"
#include "attnkit/context.hpp"
#include "attnkit/error.hpp"
#include "attnkit/scheme.hpp"
#include "attnkit/stopping.hpp"
#include "attnkit/tensor.hpp"

/// Batched attention and its gradients. A plan is made once for some shapes and options, and then
/// runs many times on arrays of these shapes:
///
///   attn::AttentionInputs<float> in;                    // q (8, 128, 64), k and v (2, 512, 64)
///   in.q = {q, {8, 128, 64}};  in.k = {k, {2, 512, 64}};  in.v = {v, {2, 512, 64}};
///   attn::AttentionPlan<float> plan(attn::shapes_of(in), {}, 4);
///   plan.run(in, {.out = {out, plan.out_shape()}});
///
/// Arrays are row-major, in the caller's memory. Operands, `out` and gradients may have strides
/// (TensorView), other arrays are dense. Leading axes are batch axes and broadcast: they are
/// aligned at the last one, and an axis of length 1, or an absent one, is repeated. The last
/// leading axis counts the heads: k and v may have fewer heads than q if their number divides that
/// of q (grouped-query attention: query head h uses key head h / (Hq/Hk)). k and v, or wk, bk, wv
/// and bv, have the same number of heads unless it is 1. Every position of the results' leading
/// axes is one problem, (Lq, Lk).
namespace attn {

/// The term that depends on the distance of key j from query i and is added to the score.
enum class RelativePositions {
  none,
  t5,     ///< a learned number for each bucket of distances and head: the operand rel_bias
  alibi,  ///< −slope_h·|p_i − j|, with the slopes of Press et al., ICLR 2022
};

/// T steps of attention on queries that move. After each step but the last, every query moves to
/// the weighted mean of the keys, q_i ← Σ_j π_ij k_j; a query that may attend to no key stays. The
/// results are those of step T, whose queries have moved T − 1 times; with v = k, out is where the
/// queries with keys move next. T = 1 is ordinary attention. The energy is gaussian, dot or
/// scaled-dot, and there is no sink.
///
/// Under unas these are the steps of mean shift. Under dnas they are the steps of expectation
/// maximisation (EM) for a mixture of Gaussians with the queries as centres and the keys as data
/// (MATHEMATICS.md §2, the mixture view):
///
///   π_ij = ξ_ij / Σ_j ξ_ij,   ξ_ij ∝_i β_i N(k_j | q_i, σ_i² I)
///
/// where at first σ_i² = 1/scale (√d/scale for scaled-dot), and β_i ∝ e^bias_i for the gaussian
/// energy, β_i ∝ exp(½‖q_i‖²/σ² + bias_i) for the others. Requires scale > 0 and a bias that is one
/// number for each query (…, Lq, 1), > −inf. Soft caps and relative positions are refused. Scores,
/// from which the potentials follow, are s_ij = log (β_i N(k_j | q_i, σ_i² I)): g_j is the
/// log-density of key j. All steps but the last are computed in float64. The log-likelihood never
/// falls from one step to the next.
///
/// Gradients go through all steps, under dnas in float64, and sum the gradients of biases over the
/// steps. They keep the queries of each step in memory. Dropout applies to the last step.
struct Repetition {
  Index iterations = 1;             ///< T >= 1
  bool estimates_variance = false;  ///< dnas: σ_i² ← Σ_j π_ij ‖k_j − q_i‖² / d with the new q
  bool estimates_priors = false;  ///< dnas: β_i ← mean_j ξ_ij
  /// Lower bound of σ_i², > 0; the likelihood is unbounded for σ_i² → 0. With estimates_variance,
  /// an initial σ_i² below min_variance is refused (Error(usage)), as raising it could lower the
  /// likelihood. Without, any value but the default is refused.
  double min_variance = 1e-6;
};

/// How scores and weights are computed:
///
///   s_ij = softcap(scale · energy(q_i, k_j)) + relative_ij + bias_ij + log preference_ij
///
/// or −inf if mask, bias, a preference of 0, causality or the window forbids the pair. Under
/// transport, preferences are no part of the scores: a forbidden pair then has no weight, and the
/// query takes no preference of that key; a preference of 0 takes away the latter only.
struct AttentionOptions {
  Scheme scheme = Scheme::unas;

  /// One of energy_names(). Empty: scaled-dot, or dot under fenchel and transport.
  std::string energy = {};
  double scale = 1;                    ///< multiplies the energy, or ready-made scores; finite
  std::optional<double> softcap = {};  ///< X > 0: X·tanh(energy/X)
  Causal causal = Causal::none;        ///< hides later keys
  Window window = {};                  ///< hides keys far from the query's position
  RelativePositions relative = RelativePositions::none;

  double hybrid = 0.5;     ///< for hnas: u in [0, 1], unless the operand hybrid is present
  double alpha = 1;        ///< for fenchel and transport: multiplies the scale; finite
  double gamma = 1;        ///< for transport: divides the scale and the costs; finite, > 0
  Stopping stopping = {};  ///< for sinkhorn; error: Σ_j |c_j − b_j| / Σ_j b_j of the column sums c

  std::optional<Repetition> repetition = {};  ///< for unas and dnas

  /// How the same mathematics is computed: time, memory and last bits.
  struct Tuning {
    /// For unas, dnas and hnas with products as energies: multiplying columns of q and dividing the
    /// same columns of k by signed powers of two changes no bit of the results. No decision then
    /// depends on the norms of q and k. Otherwise scores that are provably small take a faster
    /// path.
    bool same_if_rescaled = false;

    /// Multiplies q and k, which are bfloat16 numbers (float32 with lower halves of 0), by the
    /// CPU's bfloat16 instructions where it has them; the bits are the same everywhere. Scores are
    /// as accurate as in float32, but numbers below 2⁻⁶⁰ count as 0. Only for AttentionPlan<float>
    /// with the energies scaled-dot and dot of q and k, without Repetition.
    bool bf16 = false;

    /// For sinkhorn: bytes per thread in which exponentials may be kept from one iteration to the
    /// next. This saves time and changes no bit.
    std::int64_t kept_bytes = 0;
  };
  Tuning tuning = {};
};

/// The names of all energies.
std::vector<std::string> energy_names();

/// The operands of attention, each as an Array<element type>. Scores are made from q and k, or from
/// x and y with wq and wk, or are passed ready-made as `scores`. The other operands may be absent.
///
/// A query may see no key, and a key may be seen by no query, because of causality, a window or
/// packing. Their vectors count as 0 if they hold a NaN or an infinity; other numbers there change
/// at most the rounding of results, but must not be projected beyond the format. Not so under
/// transport.
template <template <class> class Array, class T>
struct AttentionOperands {
  Array<T> q;       ///< (…, Lq, d)
  Array<T> k;       ///< (…, Lk, d)
  Array<T> v;       ///< (…, Lk, dv)
  Array<T> scores;  ///< (…, Lq, Lk): ready-made, finite or −inf

  Array<T> x;   ///< (…, Lq, D): q = x wq + bq for every head
  Array<T> y;   ///< (…, Lk, D): k = y wk + bk, v = y wv + bv; absent: x
  Array<T> wq;  ///< (…, H, D, d)
  Array<T> wk;  ///< (…, H, D, d)
  Array<T> wv;  ///< (…, H, D, dv)
  Array<T> bq;  ///< (…, H, d)
  Array<T> bk;  ///< (…, H, d)
  Array<T> bv;  ///< (…, H, dv)

  Array<T> bias;        ///< broadcasts to (…, Lq, Lk): added; finite or −inf, which forbids
  Array<T> preference;  ///< broadcasts to (…, Lq, Lk), >= 0: u of fenchel and transport
  Array<T> cost;        ///< (…, Lk, Lk), >= 0: M of transport, from column to row; +inf forbids
  Array<T> rel_bias;    ///< (buckets, H): T5's table; bidirectional unless causal

  /// The operands of the energy besides q and k, which broadcast over heads: for bilinear w (…, d,
  /// d'); for mlp w1 (…, A, d + d'), w2 (…, A) and optionally b1 (…, A).
  std::map<std::string, Array<T>> energy;

  Array<std::uint8_t> mask;  ///< broadcasts to (…, Lq, Lk): 0 forbids

  /// The sequences of a padded batch, by the first leading axes: (B), (B, 1), … The `length`
  /// queries and keys from `start` on belong to the problem; all others are padding, whose numbers
  /// are never read. The results have the same bits as those of a problem without padding. Padding
  /// has weights, out, column sums, entropies and gradients of 0 and potentials of −inf. An absent
  /// start is 0; an absent length reaches to the end.
  Array<Index> query_length, key_length, query_start, key_start;

  /// The position of the first own query among the own keys; shaped like query_length. Absent: see
  /// Causal. Not with bottom_right; only with causality, a window or relative positions.
  Array<Index> query_offset;

  /// (S + 1): where S packed sequences begin among the queries and among the keys, and the ends: 0,
  /// …, never falling, at most Lq and Lk; what lies behind the ends is padding, as above. Both or
  /// none, and without the operands above. A query may attend to keys of its own sequence only, and
  /// positions and offsets count from its start, as if each sequence were alone. Not under
  /// transport; under sinkhorn, and with relative positions, only if each sequence has as many keys
  /// as queries.
  Array<Index> cu_seqlens_q, cu_seqlens_k;

  Array<double> hybrid;  ///< a scalar, (H), (B, H), …: u of hnas in [0, 1]

  /// A scalar, (H), (B, H), …: a logit that joins each row's sum and has no value; finite, or −inf
  /// for none. The logit is neither scaled nor capped, counts in row potentials and entropies, and
  /// has no column potential. Not for sinkhorn and transport.
  Array<double> sink;

  /// Broadcasts to (…, Lq, dv): out is multiplied by 1/(1 + exp(−gate)). Finite or −inf.
  Array<T> gate;
};

/// An array's shape; none if the array is absent.
template <class T>
using PlannedShape = std::optional<Shape>;

template <class T>
using InputView = TensorView<const T>;

/// The shapes that a plan is made for.
using AttentionShapes = AttentionOperands<PlannedShape, void>;

/// The arrays of one run. A view without data and without axes is absent.
template <class T>
using AttentionInputs = AttentionOperands<InputView, T>;

/// The shapes of arrays.
template <class T>
AttentionShapes shapes_of(const AttentionInputs<T>& inputs);

/// Where results go. A result whose view has no data is not computed and costs nothing. `leading`
/// stands for the leading axes of the results.
template <class T>
struct AttentionOutputs {
  TensorView<T> out = {};  ///< (leading, Lq, dv): o_i = Σ_j π_ij v_j
  /// (leading, Lq): f; for hnas, the f of dnas; for transport Σ_j u_ij log Z_ij. −inf, or the sink,
  /// without an allowed key.
  TensorView<double> row_potential = {};
  TensorView<double> col_potential = {};  ///< (leading, Lk): g; −inf without an allowed query
  TensorView<double> unas_row_potential = {};  ///< (leading, Lq): only for hnas
  TensorView<double> col_sum = {};             ///< (leading, Lk): c_j = Σ_i π_ij
  TensorView<double> row_entropy = {};         ///< (leading, Lq): −Σ_j π_ij log π_ij, in nats
  TensorView<T> weights = {};                  ///< (leading, Lq, Lk): all π_ij, O(Lq Lk) memory

  // Only with Repetition; values of the last step.
  TensorView<double> centre = {};    ///< (leading, Lq, d): the queries, having moved
  TensorView<double> variance = {};  ///< (leading, Lq): σ_i² of dnas
  TensorView<double> prior = {};     ///< (leading, Lq): β_i of dnas; 0 without an allowed key
};

/// What `run` has written for the same inputs, from which gradients can start. The scheme decides
/// which potentials there are; unas_row_potential is for hnas.
template <class T>
struct AttentionResults {
  TensorView<const T> out = {};
  TensorView<const double> row_potential = {};
  TensorView<const double> col_potential = {};
  TensorView<const double> unas_row_potential = {};
};

/// Where gradients go, each of the shape of its operand. A gradient whose view has no data is not
/// computed. The gradient of an operand that several problems share (grouped heads, broadcast axes)
/// is the sum over them, added up in float64 in their order.
template <class T>
struct AttentionGradients {
  TensorView<T> q, k, v;
  TensorView<T> x, y, wq, wk, wv, bq, bk, bv;  ///< x includes y's part if y is absent
  TensorView<T> bias, rel_bias;
  /// The gradient of u itself. The scale of u does not matter to the weights: Σ_j u_ij du_ij = 0
  /// under transport, and under fenchel without a sink. 0 for a query whose preferences are all 0.
  TensorView<T> preference;
  TensorView<T> cost;    ///< under transport; 0 where the cost is +inf
  TensorView<T> hybrid;  ///< one number if the operand hybrid is absent; only under hnas
  TensorView<T> sink, gate;
  std::map<std::string, TensorView<T>> energy;
};

/// The outcome of one problem.
struct ProblemSummary {
  SolveStatus status = SolveStatus::done;
  Index iterations = 1;  ///< for sinkhorn
  /// The error that AttentionOptions::stopping defines, for sinkhorn with a tolerance; else NaN.
  double column_error = std::numeric_limits<double>::quiet_NaN();
  Index empty_queries = 0;   ///< own queries that may attend to no key
  Index empty_keys = 0;      ///< own keys that no query may attend to
  Index padded_queries = 0;  ///< queries outside of the sequence
  Index padded_keys = 0;     ///< keys outside of the sequence

  /// The log-likelihood of the mixture of Gaussians with variance 1/scale that the gaussian energy
  /// stands for (MATHEMATICS.md §2, the mixture view), with priors proportional to e^bias, where
  /// the bias has one number for each centre. Under unas: of the own queries, with the keys as
  /// centres. Under dnas: of the own keys, with the queries as centres. One number, or with
  /// Repetition one for each step, also for dnas with the other energies; empty in all other cases.
  std::vector<double> log_likelihood;
};

struct AttentionSummary {
  std::vector<ProblemSummary> problems;  ///< in row-major order of the leading axes

  /// not_converged if any problem is, else converged if any is, else done.
  SolveStatus status() const;
  Index iterations() const;  ///< the largest number among the problems
  Index empty_queries() const;
  Index empty_keys() const;
  Index padded_queries() const;
  Index padded_keys() const;
};

/// Attention of float or double arrays.
///
/// Errors, relative to the largest magnitude of the result in the problem, with s the largest
/// |s_ij|:
///
/// - out, weights and column sums: 2e-5 + 4·2⁻²⁴ s in float, 1e-12 + 4·2⁻⁵³ s in double;
/// - gradients: 5e-5 + 8·2⁻²⁴ s in float, 1e-11 + 8·2⁻⁵³ s in double. Under transport, where each
///   source has one target, they are relative to the products ⟨dO_i, v_j⟩, whose differences
///   vanish.
///
/// Absolute errors of potentials are at most 4 times the first bound, those of entropies at most 90
/// (1 + log Lk) times. Sinkhorn adds the error of its iteration. The tests enforce these bounds on
/// random problems against plain evaluations.
/// A plan keeps its working memory from run to run. Different plans may run at the same time in
/// different threads; one plan must not run twice at a time.
template <class T>
class AttentionPlan {
 public:
  /// Throws:
  ///
  /// - Error(input), naming the operands, for shapes that do not fit;
  /// - Error(usage) for invalid options, and for options of another scheme that differ from their
  ///   defaults;
  /// - Error(memory) if the plan does not fit into memory.
  AttentionPlan(const AttentionShapes& shapes, const AttentionOptions& options,
                const Context& context);

  /// A plan that has been moved from may be destroyed or assigned to; every other use throws
  /// Error(usage). This holds for every plan class.
  ~AttentionPlan();
  AttentionPlan(AttentionPlan&&) noexcept;
  AttentionPlan& operator=(AttentionPlan&&) noexcept;

  /// Dropout of weights in all later calls: out = (M∘π) v with M_ij = 0 with probability `rate` in
  /// [0, 1), else 1/(1 − rate). M is a function of (seed, stream), the problem, the query and the
  /// key alone, by Philox4x32-10, so that `gradients` sees the M of `run`. Sums, entropies, weights
  /// and potentials are computed from π. A rate of 0, the initial value, means no dropout. Throws
  /// Error(usage) for a rate out of range.
  void set_dropout(double rate, std::uint64_t seed, std::uint64_t stream);

  /// The leading axes of the results, and the results' shapes.
  const Shape& leading() const;
  Shape out_shape() const;    ///< leading, Lq, dv
  Shape query_shape() const;  ///< leading, Lq
  Shape key_shape() const;    ///< leading, Lk

  /// The most bytes of working memory that `run` and `gradients` keep, respectively. The first call
  /// allocates it and later calls reuse it. O(L·d) for each thread that has work. In addition,
  /// dropout takes a tile for each thread, and a gradient with strides the size of a block for each
  /// of up to 4 problems per thread.
  std::int64_t workspace_bytes() const;
  std::int64_t gradient_workspace_bytes() const;

  /// Computes the outputs. Throws Error(usage) for an output that does not exist for the plan's
  /// operands and scheme, Error(input) for arrays whose shapes are not the plan's and for numbers
  /// that are not allowed (NaN, and infinities except −inf in bias, scores and gate),
  /// Error(numerical) for scores and projections beyond the range of T, Error(memory) if memory
  /// does not suffice. After an error the outputs are unspecified and the plan can run again.
  AttentionSummary run(const AttentionInputs<T>& inputs, const AttentionOutputs<T>& outputs);

  /// Computes the gradients of a loss L from grad_out = ∂L/∂out (leading, Lq, dv), which must be
  /// finite. The gradients are exact, also through all iterations of sinkhorn, and take O(L·d)
  /// memory. Also computes the outputs. Throws the errors of `run`, and Error(numerical) for a
  /// gradient beyond the range of T.
  AttentionSummary gradients(const AttentionInputs<T>& inputs, TensorView<const T> grad_out,
                             const AttentionGradients<T>& gradients,
                             const AttentionOutputs<T>& outputs = {});

  /// The same gradients, to the last bit, from known results, which are not computed again: seven
  /// products become five. Throws Error(usage) under sinkhorn, whose iterations are all needed, and
  /// with a gate; Error(input) for a result that is missing or has another shape. Whether the
  /// results belong to the inputs is not checked.
  void gradients_from(const AttentionInputs<T>& inputs, const AttentionResults<T>& results,
                      TensorView<const T> grad_out, const AttentionGradients<T>& gradients);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
