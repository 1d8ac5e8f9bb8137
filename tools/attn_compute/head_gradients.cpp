#include "attn_compute/head_gradients.hpp"

#include <algorithm>

#include "gradient/projection_gradient.hpp"
#include "head/head.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

bool is_of_join(const std::string& name) { return name == "grad_wo" || name == "grad_bo"; }

bool needs_scores(const std::string& name) {
  return name != "grad_v" && name != "grad_wv" && name != "grad_hybrid" && name != "grad_sink" &&
         name != "grad_gate" && !is_of_join(name);
}

bool asks_for_scores(const ComputeOptions& options) {
  return std::any_of(options.gradients.begin(), options.gradients.end(),
                     [](const GradientKind& kind) { return needs_scores(kind.name); });
}

// Whether all gradients are gradients of joining, which need no weights.
bool asks_for_join_only(const ComputeOptions& options) {
  return std::all_of(options.gradients.begin(), options.gradients.end(),
                     [](const GradientKind& kind) { return is_of_join(kind.name); });
}

// Where the gradients of one head go.
template <class T>
class Parts {
 public:
  Parts(const ComputeOptions& options, const std::vector<Buffer<T>>& parts)
      : options_(options), parts_(parts) {}

  // The matrix of a requested gradient; without data if it is not requested.
  MatrixView<T> part(const std::string& name, Index rows, Index cols) const {
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      if (options_.gradients[n].name == name) return {parts_[n].data(), rows, cols};
    }
    return {nullptr, rows, cols};
  }
  MatrixView<T> part(const std::string& name, const Operand& operand) const {
    return part(name, operand.rows, operand.cols);
  }

 private:
  const ComputeOptions& options_;
  const std::vector<Buffer<T>>& parts_;
};

bool projects(const AttentionInput& input) {
  return input.options.source == ScoreOptions::Source::projection;
}

template <class T>
HeadProjectionTargets<T> projection_targets(const AttentionInput& input, const TileRange& own,
                                            const Parts<T>& parts) {
  const bool has_y = input.k->input.dataset.address() != input.q->input.dataset.address();
  HeadProjectionTargets<T> targets;
  targets.x = by_query(parts.part("grad_x", input.q->input), own);
  targets.y = by_key(parts.part(has_y ? "grad_y" : "grad_x", input.k->input), own);
  targets.wq = parts.part("grad_wq", *input.q->weights);
  targets.wk = parts.part("grad_wk", *input.k->weights);
  if (input.v) targets.wv = parts.part("grad_wv", *input.v->weights);
  return targets;
}

template <class T>
HeadGradientTargets<T> gradient_targets(const AttentionInput& input, const TileRange& own,
                                        const Parts<T>& parts) {
  HeadGradientTargets<T> targets;
  if (projects(input)) {
    targets.projections = projection_targets(input, own, parts);
  } else {
    if (input.q) targets.q = by_query(parts.part("grad_q", input.q->input), own);
    if (input.k) targets.k = by_key(parts.part("grad_k", input.k->input), own);
    if (input.v) targets.v = by_key(parts.part("grad_v", input.v->input), own);
  }
  for (std::size_t n = 0; n < input.energy_operands.size(); ++n) {
    const auto& operand = input.energy_operands[n];
    targets.energy.push_back(operand
                                 ? parts.part("grad_" + input.energy().operands()[n].name, *operand)
                                 : MatrixView<T>());
  }
  if (input.bias) targets.bias = by_pair(parts.part("grad_bias", *input.bias), own);
  targets.hybrid = parts.part("grad_hybrid", 1, 1).data;
  targets.sink = parts.part("grad_sink", 1, 1).data;
  if (input.gate) {
    targets.gate = parts.part("grad_gate", *input.gate);
    if (input.has_gate_by_query()) targets.gate = by_query(targets.gate, own);
  }
  if (!input.rel_bias) return targets;
  // Without a dataset bias, the gradient of the bias is that of the table.
  targets.relative_bias = parts.part("grad_rel_bias", *input.rel_bias);
  if (!input.bias && targets.relative_bias.data == nullptr) {
    targets.relative_bias = parts.part("grad_bias", *input.rel_bias);
  }
  return targets;
}

}  // namespace

template <class T>
std::vector<Buffer<T>> head_gradients(const ComputeOptions& options, const AttentionInput& input,
                                      const Head<T>& head, const HeadWork<T>& found, int threads) {
  std::vector<Buffer<T>> parts;
  for (const GradientKind& kind : options.gradients) parts.emplace_back(kind.size());
  const TileRange& own = head.part.range;
  const bool empty = own.rows == 0 || own.cols == 0;
  if (empty || options.join || !head.part.is_whole(input.queries, input.keys)) {
    for (const Buffer<T>& part : parts) std::fill(part.begin(), part.end(), T{0});
  }
  if (empty || asks_for_join_only(options)) return parts;
  HeadForward<T> forward = forward_of(found);
  forward.grad_out = head.grad_out();
  forward.q = head.made_of_q();
  forward.k = head.made_of_k();
  forward.v = head.made_of_v();
  const Parts<T> named(options, parts);
  const HeadGradientTargets<T> targets = gradient_targets(input, own, named);
  differentiate_head(forward, targets, threads);
  if (input.bias || !input.rel_bias) return parts;
  // The table's gradient may be requested by both of its names.
  const MatrixView<T> also = named.part("grad_bias", *input.rel_bias);
  const MatrixView<T>& table = targets.relative_bias;
  if (also.data != nullptr && also.data != table.data) {
    std::copy_n(table.data, table.rows * table.cols, also.data);
  }
  return parts;
}

template <class T>
void differentiate_join(const ComputeOptions& options, const AttentionInput& input,
                        const Head<T>& head, MatrixView<const T> out, int threads,
                        const std::vector<Buffer<T>>& parts) {
  if (out.rows == 0 || !(options.emits("grad_wo") || options.emits("grad_bo"))) return;
  const Parts<T> named(options, parts);
  ProjectionTargets<T> targets;
  targets.weights = named.part("grad_wo", *input.wo);
  if (input.bo && head.problem % input.heads() == 0) {
    targets.bias = named.part("grad_bo", *input.bo);
  }
  const ProjectedFrom<T> joined = head.made_of_grad_out();
  differentiate_projection<T>(out, joined.weights, joined.input, targets, threads);
}

std::int64_t head_gradient_bytes(const ComputeOptions& options, const AttentionInput& input,
                                 std::size_t element_size, int threads) {
  if (!options.emits_gradients()) return 0;
  return differentiate_head_bytes(input.recipe(options.scheme.scheme), options.scheme,
                                  options.repetition, input.q.has_value(), projects(input),
                                  asks_for_scores(options), input.sizes(), input.v_head_dim,
                                  element_size, threads);
}

double gradient_flops(const ComputeOptions& options, const AttentionInput& input) {
  if (!options.emits_gradients()) return 0;
  const Scheme scheme = options.scheme.scheme;
  const double values = 2 * input.pairs() * static_cast<double>(input.v_head_dim);
  // Scores are made again, after the scheme's own passes.
  const SchemePasses before = description_of(scheme).gradient_passes(options.scheme);
  const double passes = before.scores + 1;
  const double products =
      before.values + (options.emits("grad_v") || options.emits("grad_wv") ? 1 : 0);
  if (options.repetition) {
    // Each step once more forward, with the means of keys and of squares as values.
    const auto times = static_cast<double>(options.repetition->iterations);
    const double means = 2 * input.pairs() * static_cast<double>(input.depth + 1);
    const double forward = description_of(scheme).score_passes(options.scheme);
    return times * (input.score_flops(scheme, forward + passes + 2) + 3 * means) +
           products * values;
  }
  if (!asks_for_scores(options)) return input.score_flops(scheme, passes) + products * values;
  // G, and two more products as large as those that made the scores.
  return input.score_flops(scheme, passes + 2) + (products + 1) * values;
}

#define ATTN_FOR_TYPE(T)                                                                         \
  template std::vector<Buffer<T>> head_gradients(const ComputeOptions&, const AttentionInput&,   \
                                                 const Head<T>&, const HeadWork<T>&, int);       \
  template void differentiate_join(const ComputeOptions&, const AttentionInput&, const Head<T>&, \
                                   MatrixView<const T>, int, const std::vector<Buffer<T>>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
