#include "attn_compute/head_gradients.hpp"

#include <algorithm>

#include "attn_compute/norms_over_heads.hpp"
#include "gradient/projection_gradient.hpp"
#include "head/gradient_operands.hpp"
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

// The operand of a gradient. A dataset bias comes before T5's table, which has both names.
std::string operand_of(const GradientKind& kind, const AttentionInput& input) {
  const std::string name = kind.name.substr(std::string("grad_").size());
  return name == "bias" && !input.bias ? "rel_bias" : name;
}

}  // namespace

template <class T>
HeadGradients<T>::HeadGradients(const ComputeOptions& options, const AttentionInput& input)
    : options_(options), input_(input) {
  if (options.gradients.empty()) return;
  const auto known = gradient_operands<T>(input, options.scheme.scheme, std::nullopt);
  for (const GradientKind& kind : options.gradients) {
    operands_.emplace_back();
    for (const GradientOperand<T>& operand : known) {
      if (operand.name == operand_of(kind, input)) operands_.back() = operand;
    }
  }
}

// The matrix of a requested gradient; without data if it is not requested.
template <class T>
MatrixView<T> HeadGradients<T>::part(const std::string& name, const Operand& operand,
                                     const std::vector<Buffer<T>>& parts) const {
  for (std::size_t n = 0; n < parts.size(); ++n) {
    if (options_.gradients[n].name == name) return {parts[n].data(), operand.rows, operand.cols};
  }
  return {nullptr, operand.rows, operand.cols};
}

template <class T>
HeadGradientTargets<T> HeadGradients<T>::targets(const TileRange& own,
                                                 const std::vector<Buffer<T>>& parts) const {
  HeadGradientTargets<T> targets;
  for (std::size_t n = 0; n < parts.size(); ++n) {
    if (!operands_[n] || parts[n].size() == 0) continue;
    const auto& operand = operands_[n]->operand;
    operands_[n]->place(
        targets, {parts[n].data(), operand ? operand->rows : 1, operand ? operand->cols : 1}, own);
  }
  return targets;
}

template <class T>
void HeadGradients<T>::make_room_for_all_heads(std::vector<Buffer<T>>& parts) const {
  for (std::size_t n = 0; n < parts.size(); ++n) {
    if (!options_.gradients[n].of_all_heads()) continue;
    parts[n] = Buffer<T>(options_.gradients[n].size());
    std::fill(parts[n].begin(), parts[n].end(), T{0});
  }
}

template <class T>
std::vector<Buffer<T>> HeadGradients<T>::of(const Head<T>& head, const HeadWork<T>& found,
                                            std::vector<Buffer<T>>& normed, int threads) const {
  std::vector<Buffer<T>> parts;
  for (const GradientKind& kind : options_.gradients) {
    parts.emplace_back(kind.of_all_heads() ? 0 : kind.size());
  }
  for (const bool of_queries : {true, false}) {
    const std::optional<Vectors>& from = of_queries ? input_.q : input_.k;
    const bool wanted = through_all_heads(options_.gradients, input_, of_queries);
    normed.emplace_back(wanted ? from->rows * from->cols : 0);
  }
  const TileRange& own = head.part.range;
  const bool empty = own.rows == 0 || own.cols == 0;
  if (empty || options_.join || !head.part.is_whole(input_.queries, input_.keys)) {
    for (const auto* all : {&parts, &normed}) {
      for (const Buffer<T>& part : *all) std::fill(part.begin(), part.end(), T{0});
    }
  }
  if (empty || asks_for_join_only(options_)) return parts;
  HeadGradientTargets<T> to = targets(own, parts);
  const auto view = [](const Buffer<T>& numbers, const Vectors& from) {
    return MatrixView<T>(numbers.data(), from.rows, from.cols);
  };
  if (normed[0].size() > 0) to.q = by_query(view(normed[0], *input_.q), own);
  if (normed[1].size() > 0) to.k = by_key(view(normed[1], *input_.k), own);
  differentiate_head(forward_of(found), to, threads);
  if (input_.bias || !input_.rel_bias) return parts;
  // The table's gradient may be requested by both of its names: the second one was computed.
  const MatrixView<T> first = part("grad_bias", *input_.rel_bias, parts);
  const MatrixView<T> second = part("grad_rel_bias", *input_.rel_bias, parts);
  if (first.data != nullptr && second.data != nullptr) {
    std::copy_n(second.data, second.rows * second.cols, first.data);
  }
  return parts;
}

template <class T>
void HeadGradients<T>::add_join(const Head<T>& head, MatrixView<const T> out, int threads,
                                const std::vector<Buffer<T>>& parts) const {
  if (out.rows == 0 || !(options_.emits("grad_wo") || options_.emits("grad_bo"))) return;
  ProjectionTargets<T> targets;
  targets.weights = part("grad_wo", *input_.wo, parts);
  if (input_.bo && head.problem % input_.heads() == 0) {
    targets.bias = part("grad_bo", *input_.bo, parts);
  }
  const ProjectedFrom<T>& joined = head.made_of_grad_out();
  differentiate_projection<T>(out, joined.weights, joined.input, targets, threads);
}

std::int64_t head_gradient_bytes(const ComputeOptions& options, const AttentionInput& input,
                                 std::size_t element_size, int threads) {
  if (!options.emits_gradients()) return 0;
  std::int64_t bytes = 0;
  for (const auto* vectors : {&input.q, &input.k}) {
    if (!*vectors || (*vectors)->transform == nullptr || (*vectors)->over_heads()) continue;
    bytes = std::max(
        bytes, differentiate_projected_bytes((*vectors)->rows, (*vectors)->cols, element_size));
  }
  return bytes + differentiate_head_bytes(input.recipe(options.scheme.scheme), options.scheme,
                                          options.repetition, input.q.has_value(),
                                          (input.q && input.q->weights), asks_for_scores(options),
                                          input.sizes(), input.v_head_dim, element_size, threads);
}

double gradient_flops(const ComputeOptions& options, const AttentionInput& input) {
  if (!options.emits_gradients()) return 0;
  const Scheme scheme = options.scheme.scheme;
  const double values = 2 * input.pairs() * static_cast<double>(input.v_head_dim);
  const double among_keys =
      input.pairs() * description_of(scheme).flops_among_keys(input.keys, true);
  // Scores are made again, after the scheme's own passes.
  SchemePasses before = description_of(scheme).gradient_passes(options.scheme);
  if (options.emits("grad_preference") && !description_of(scheme).is_transport()) {
    ++before.scores;
    ++before.values;
  }
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
  if (!asks_for_scores(options)) {
    return input.score_flops(scheme, passes) + among_keys + products * values;
  }
  // G, and two more products as large as those that made the scores.
  return input.score_flops(scheme, passes + 2) + among_keys + (products + 1) * values +
         norms_over_heads_flops(options, input);
}

template class HeadGradients<float>;
template class HeadGradients<double>;

}  // namespace attn::tools
