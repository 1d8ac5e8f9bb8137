#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attnkit/causal.hpp"
#include "attnkit/error.hpp"
#include "attnkit/scheme.hpp"
#include "attnkit/stopping.hpp"
#include "attnkit/tensor.hpp"

/// Batched attention and its gradients. A plan is made once for some shapes and options, and then
/// runs many times on arrays of those shapes:
///
///   attn::AttentionInputs<float> in;                    // q (8, 128, 64), k and v (2, 512, 64)
///   in.q = {q, {8, 128, 64}};  in.k = {k, {2, 512, 64}};  in.v = {v, {2, 512, 64}};
///   attn::AttentionPlan<float> plan(attn::shapes_of(in), {}, 4);
///   plan.run(in, {.out = {out, plan.out_shape()}});
///
/// Arrays are dense and row-major, in the caller's memory. Leading axes are batch axes and
/// broadcast: aligned at the last one, length 1 or absent stretches. The last leading axis is that
/// of the heads: k and v may have fewer than q, if their number divides q's (grouped-query
/// attention: query head h uses key head h / (Hq/Hk)). Every position of the results' leading axes
/// is one problem, (Lq, Lk).
namespace attn {

/// What is added to the scores by the distance of key j from query i.
enum class RelativePositions {
  none,
  t5,     ///< a learned number per bucket of distances and head: the operand rel_bias
  alibi,  ///< −slope_h·|p_i − j|, with the slopes of Press et al., ICLR 2022
};

/// How scores and weights are computed:
///
///   s_ij = softcap(scale · energy(q_i, k_j)) + relative_ij + bias_ij + log preference_ij
///
/// and −inf where mask, bias, a preference of 0, causality, window or key_length forbid the pair.
struct AttentionOptions {
  Scheme scheme = Scheme::unas;

  /// One of energy_names(). Empty: scaled-dot, under the scheme fenchel dot.
  std::string energy;
  double scale = 1;               ///< multiplies the energy, or ready-made scores; finite
  std::optional<double> softcap;  ///< X > 0: X·tanh(energy/X)
  Causal causal = Causal::none;   ///< top_left: j <= i; bottom_right: j <= i + Lk − Lq
  std::optional<Index> window;    ///< W >= 1: only keys less than W positions away
  RelativePositions relative = RelativePositions::none;

  double hybrid = 0.5;  ///< u of hnas in [0, 1], unless there is an operand hybrid
  double alpha = 1;     ///< of fenchel: multiplies the scale; finite
  Stopping stopping;    ///< of sinkhorn; error: Σ_j |c_j − b_j| / Σ_j b_j of the column sums c

  /// Of sinkhorn: bytes per thread in which exponentials may be kept from one iteration to the
  /// next. It saves time and changes no bit.
  std::int64_t kept_bytes = 0;
};

/// The energies that there are: scaled-dot, dot, gaussian, bilinear, mlp.
std::vector<std::string> energy_names();

/// The operands of attention, each as an Array<element type>. What scores are made of is either q
/// and k, or scores, or x and y with wq and wk; others may be absent.
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
  Array<T> preference;  ///< broadcasts to (…, Lq, Lk), >= 0: u of fenchel
  Array<T> rel_bias;    ///< (buckets, H): T5's table; bidirectional unless causal

  /// What the energy takes beside q and k, broadcasting over heads: of bilinear w (…, d, d'), of
  /// mlp w1 (…, A, d + d'), w2 (…, A) and perhaps b1 (…, A).
  std::map<std::string, Array<T>> energy;

  Array<std::uint8_t> mask;  ///< broadcasts to (…, Lq, Lk): 0 forbids
  Array<Index> key_length;   ///< (B), (B, 1), …: keys at index >= key_length are padding
  Array<double> hybrid;      ///< a scalar, (H), (B, H), …: u of hnas in [0, 1]
};

/// An array's shape, or that it is absent.
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

/// Where results go; a view without data is not wanted, and costs nothing. `leading` stands for the
/// leading axes of the results.
template <class T>
struct AttentionOutputs {
  TensorView<T> out;                      ///< (leading, Lq, dv): o_i = Σ_j π_ij v_j
  TensorView<double> row_potential;       ///< (leading, Lq): f; hnas: that of dnas
  TensorView<double> col_potential;       ///< (leading, Lk): g; −inf where nothing is allowed
  TensorView<double> unas_row_potential;  ///< (leading, Lq): only hnas has it
  TensorView<double> col_sum;             ///< (leading, Lk): c_j = Σ_i π_ij
  TensorView<double> row_entropy;         ///< (leading, Lq): −Σ_j π_ij log π_ij, in nats
  TensorView<T> weights;                  ///< (leading, Lq, Lk): all of them are written down
};

/// Where gradients go, each of the shape of its operand; a view without data is not wanted. An
/// operand that several problems share (grouped heads, axes that broadcast) gets the sum over them,
/// added up in float64 in their order.
template <class T>
struct AttentionGradients {
  TensorView<T> q, k, v;
  TensorView<T> x, y, wq, wk, wv, bq, bk, bv;  ///< x also has y's part where y is absent
  TensorView<T> bias, rel_bias;
  TensorView<T> hybrid;  ///< one number if there is no operand hybrid; only under hnas
  std::map<std::string, TensorView<T>> energy;
};

/// What became of one problem.
struct ProblemSummary {
  SolveStatus status = SolveStatus::done;
  Index iterations = 1;                                            ///< of sinkhorn
  double column_error = std::numeric_limits<double>::quiet_NaN();  ///< of sinkhorn with a tolerance
  Index empty_queries = 0;  ///< queries that may attend to no key
  Index empty_keys = 0;     ///< keys that no query may attend to
};

struct AttentionSummary {
  std::vector<ProblemSummary> problems;  ///< in row-major order of the leading axes

  /// not_converged if any problem is, else converged if any is.
  SolveStatus status() const;
  Index iterations() const;  ///< the most
  Index empty_queries() const;
  Index empty_keys() const;
};

/// Attention of float or double arrays. A plan holds its working memory from run to run. Plans are
/// independent of each other: they may run at the same time in different threads. One plan runs
/// once at a time.
template <class T>
class AttentionPlan {
 public:
  /// Throws Error(input) naming the operands whose shapes do not fit, Error(usage) for options that
  /// do not exist or have no effect. Threads: >= 1; they share the problems, or work on one problem
  /// at a time where there are fewer. No result depends on their number.
  AttentionPlan(const AttentionShapes& shapes, const AttentionOptions& options, int threads);

  ~AttentionPlan();
  AttentionPlan(AttentionPlan&&) noexcept;
  AttentionPlan& operator=(AttentionPlan&&) noexcept;

  /// The leading axes of the results, and their shapes.
  const Shape& leading() const;
  Shape out_shape() const;    ///< leading, Lq, dv
  Shape query_shape() const;  ///< leading, Lq
  Shape key_shape() const;    ///< leading, Lk

  /// Bytes of working memory that `run` keeps, and that `gradients` keeps in its place. It is
  /// taken by the first call; later ones find it there. O(L·d) for each thread.
  std::int64_t workspace_bytes() const;
  std::int64_t gradient_workspace_bytes() const;

  /// Computes the outputs. Throws Error(usage) for an output that the operands cannot give,
  /// Error(input) for arrays of other shapes than the plan's and for numbers that are not allowed
  /// (NaN, infinities but −inf in bias and scores), Error(numerical) for scores and projections
  /// beyond the range of T. After an error the outputs are unspecified and the plan can run again.
  AttentionSummary run(const AttentionInputs<T>& inputs, const AttentionOutputs<T>& outputs);

  /// The gradients of the loss L for grad_out = ∂L/∂out (leading, Lq, dv), finite: exact, through
  /// all iterations of sinkhorn, in O(L·d) memory. Computes the outputs on the way. Throws what
  /// `run` throws, and Error(numerical) for a gradient beyond the range of T.
  AttentionSummary gradients(const AttentionInputs<T>& inputs, TensorView<const T> grad_out,
                             const AttentionGradients<T>& gradients,
                             const AttentionOutputs<T>& outputs = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
