#include <algorithm>

#include "gradient/bias_gradient.hpp"
#include "head/bias_sinks.hpp"
#include "head/head.hpp"
#include "head/output_gate.hpp"
#include "head/repeated_scores.hpp"
#include "scheme/gradient.hpp"

namespace attn {
namespace {

// The gradient of q, k or v, which goes to its target, or into a buffer from which the projection's
// gradients are computed.
template <class T>
class VectorGradient {
 public:
  VectorGradient(MatrixView<const T> vectors, const ProjectedFrom<T>& from, MatrixView<T> own,
                 const ProjectionTargets<T>& projection)
      : from_(from), view_(own.data, vectors.rows, vectors.cols) {
    if (!from.over_heads()) projection_ = projection;
    if (own.data != nullptr || !projection_.any()) return;
    storage_ = Buffer<T>(vectors.rows * vectors.cols);
    view_.data = storage_.data();
  }

  MatrixView<T> view() const { return view_; }

  void project_back(int threads) const {
    if (from_.over_heads() && view_.data != nullptr) rotate_back<T>(from_.rows, view_, threads);
    if (!projection_.any()) return;
    differentiate_projected<T>(from_, view_, projection_, threads);
  }

 private:
  ProjectedFrom<T> from_;
  ProjectionTargets<T> projection_;
  Buffer<T> storage_;
  MatrixView<T> view_;
};

template <class T>
std::unique_ptr<GradientSink<T>> energy_sink(const HeadForward<T>& head,
                                             const HeadGradientTargets<T>& targets,
                                             MatrixView<T> grad_q, MatrixView<T> grad_k,
                                             int threads) {
  const HeadArrays<T>& arrays = *head.arrays;
  if (arrays.q.data == nullptr) return nullptr;
  const EnergyGradients<T> gradients{grad_q, grad_k, targets.energy};
  if (!gradients.any()) return nullptr;
  return head.recipe->energy->differentiate(arrays.energy_arguments(head.recipe->scale, threads),
                                            gradients);
}

template <class T>
void differentiate_once(const HeadForward<T>& head, const HeadGradientTargets<T>& targets,
                        const Forward<T>& forward, MatrixView<T> grad_q, MatrixView<T> grad_k,
                        MatrixView<T> grad_v, int threads) {
  GradientTargets<T> sinks;
  sinks.v = grad_v;
  const auto energy = energy_sink(head, targets, grad_q, grad_k, threads);
  if (energy) sinks.energies.push_back(energy.get());
  const auto biases = bias_sinks(*head.recipe, *head.arrays, targets.bias, targets.relative_bias);
  for (const auto& bias : biases) sinks.scores.push_back(bias.get());
  std::unique_ptr<GradientSink<T>> preference;
  if (targets.preference.data != nullptr) {
    preference = make_bias_gradient<T>(head.arrays->queries, head.arrays->keys, targets.preference);
    sinks.preferences.push_back(preference.get());
  }
  sinks.cost = targets.cost;
  sinks.hybrid = targets.hybrid != nullptr;
  const NumberGradients numbers = differentiate(forward, sinks, threads);
  if (targets.hybrid != nullptr) *targets.hybrid = static_cast<T>(numbers.hybrid);
  if (targets.sink != nullptr) *targets.sink = static_cast<T>(numbers.sink);
}

}  // namespace

template <class T>
void differentiate_head(const HeadForward<T>& head, const HeadGradientTargets<T>& targets,
                        int threads) {
  const HeadArrays<T>& arrays = *head.arrays;
  const HeadProjectionTargets<T>& back = targets.projections;
  const VectorGradient<T> q(arrays.q, head.q, targets.q,
                            {back.x, back.wq, back.bq, back.q_norm, back.q_norm_bias});
  const VectorGradient<T> k(arrays.k, head.k, targets.k,
                            {back.y, back.wk, back.bk, back.k_norm, back.k_norm_bias});
  const VectorGradient<T> v(arrays.v, head.v, targets.v, {back.y, back.wv, back.bv});

  Forward<T> forward;
  forward.scores = head.scores;
  forward.options = head.options;
  forward.attention = head.attention;
  forward.v = arrays.v;
  forward.out = head.out;
  forward.grad_out = head.grad_out;
  forward.dropout = head.dropout;
  Buffer<T> gated;
  if (arrays.gate != nullptr) {
    if (targets.gate.data != nullptr) {
      differentiate_gate<T>(*arrays.gate, head.out, head.grad_out, targets.gate);
    }
    gated = through_gate<T>(*arrays.gate, head.grad_out);
    forward.grad_out = {gated.data(), head.grad_out.rows, head.grad_out.cols};
  }
  if (head.repeated != nullptr) {
    head.repeated->differentiate(
        forward, {q.view(), k.view(), v.view(), targets.bias, targets.relative_bias}, threads);
  } else {
    differentiate_once(head, targets, forward, q.view(), k.view(), v.view(), threads);
  }

  set_to_zero(back.x);
  set_to_zero(back.y);
  q.project_back(threads);
  k.project_back(threads);
  v.project_back(threads);
}

std::int64_t differentiate_head_bytes(const ScoreRecipe& recipe, const SchemeOptions& options,
                                      const std::optional<Repetition>& repetition, bool vectors,
                                      bool projects, bool needs_scores, const EnergySizes& sizes,
                                      Index v_head_dim, std::size_t element_size, int threads) {
  std::int64_t bytes =
      differentiate_bytes(options, {sizes.queries, sizes.keys, v_head_dim, element_size, threads}) +
      gate_bytes(sizes.queries, v_head_dim, element_size);
  if (repetition) {
    bytes +=
        repeated_gradient_bytes(recipe, options.scheme, sizes, v_head_dim, element_size, threads);
  }
  if (!needs_scores) return bytes;
  const Index lanes = gradient_lanes(sizes.keys, threads);
  // The gradients of a bias and of preferences take scores of their own.
  bytes += 2 * bias_gradient_bytes(sizes.queries, sizes.keys, lanes) +
           t5_gradient_bytes(sizes.queries, sizes.keys, lanes);
  if (!vectors) return bytes;
  if (projects) {
    bytes += (sizes.queries * sizes.q_depth + sizes.keys * (sizes.k_depth + v_head_dim)) *
             static_cast<std::int64_t>(element_size);
  }
  return bytes + recipe.energy->gradient_bytes(sizes, element_size, lanes);
}

template void differentiate_head(const HeadForward<float>&, const HeadGradientTargets<float>&, int);
template void differentiate_head(const HeadForward<double>&, const HeadGradientTargets<double>&,
                                 int);

}  // namespace attn
