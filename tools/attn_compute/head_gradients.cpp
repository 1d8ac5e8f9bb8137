#include "attn_compute/head_gradients.hpp"
#include "common/scheme_settings.hpp"

#include <algorithm>

#include "gradient/bias_gradient.hpp"
#include "gradient/energy_gradient.hpp"
#include "gradient/gradient.hpp"
#include "score/panel_product.hpp"

namespace attn::tools {
namespace {

bool asks_for_scores(const ComputeOptions& options) {
  return std::any_of(
      options.gradients.begin(), options.gradients.end(), [](const GradientKind& kind) {
        return kind.name != "grad_v" && kind.name != "grad_wv" && kind.name != "grad_hybrid";
      });
}

template <class T>
void clear(MatrixView<T> matrix) {
  for (Index i = 0; i < matrix.rows; ++i) std::fill_n(matrix.row(i), matrix.cols, T{0});
}

template <class T>
class HeadGradients {
 public:
  HeadGradients(const ComputeOptions& options, const AttentionInput& input, const Head<T>& head,
                int threads)
      : options_(options), input_(input), head_(head), threads_(threads) {
    for (const GradientKind& kind : options.gradients) parts_.emplace_back(kind.size());
    plan_vectors();
  }

  std::vector<Buffer<T>> compute(const SchemeOptions& scheme, const Attention& attention,
                                 MatrixView<const T> out) {
    Forward<T> forward;
    forward.scores = &head_.scores(scheme.scheme);
    forward.options = scheme;
    forward.attention = &attention;
    forward.v = head_.v();
    forward.out = out;
    forward.grad_out = head_.grad_out();
    GradientTargets<T> targets;
    targets.v = grad_v_;
    const auto energy = energy_sink(scheme.scheme);
    if (energy) targets.energies.push_back(energy.get());
    const auto biases = bias_sinks();
    for (const auto& bias : biases) targets.scores.push_back(bias.get());
    const MatrixView<T> of_hybrid = part("grad_hybrid", 1, 1);
    targets.hybrid = of_hybrid.data != nullptr;
    const double hybrid = differentiate(forward, targets, threads_);
    if (targets.hybrid) of_hybrid(0, 0) = static_cast<T>(hybrid);
    project_back();
    return std::move(parts_);
  }

 private:
  // Where a gradient goes; no data where it is not asked for.
  MatrixView<T> part(const std::string& name, Index rows, Index cols) const {
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      if (options_.gradients[n].name == name) return {parts_[n].data(), rows, cols};
    }
    return {nullptr, rows, cols};
  }

  bool projects() const { return input_.options.source == ScoreOptions::Source::projection; }
  bool has_y() const {
    return input_.k->input.dataset.address() != input_.q->input.dataset.address();
  }

  // Of q, k, v themselves, or what their projections' gradients are made of.
  void plan_vectors() {
    const auto plan = [&](const std::string& name, const std::optional<Vectors>& vectors,
                          bool wanted_by_projection, Buffer<T>& storage) {
      if (!vectors) return MatrixView<T>();
      if (!projects()) return part(name, vectors->rows, vectors->cols);
      if (!wanted_by_projection) return MatrixView<T>(nullptr, vectors->rows, vectors->cols);
      storage = Buffer<T>(vectors->rows * vectors->cols);
      return MatrixView<T>(storage.data(), vectors->rows, vectors->cols);
    };
    const bool of_x = options_.emits("grad_x");
    const bool of_keys = projects() && (options_.emits("grad_y") || (of_x && !has_y()));
    grad_q_ = plan("grad_q", input_.q, of_x || options_.emits("grad_wq"), q_storage_);
    grad_k_ = plan("grad_k", input_.k, of_keys || options_.emits("grad_wk"), k_storage_);
    grad_v_ = plan("grad_v", input_.v, of_keys || options_.emits("grad_wv"), v_storage_);
  }

  std::unique_ptr<GradientSink<T>> energy_sink(Scheme scheme) {
    if (!input_.q) return nullptr;
    const MatrixView<const T> q = head_.q();
    const MatrixView<const T> k = head_.k();
    const ScoreOptions& scores = input_.options;
    const double scale = scores.scale * (scheme == Scheme::fenchel ? scores.alpha : 1);
    const bool vectors = grad_q_.data != nullptr || grad_k_.data != nullptr;
    const auto product = [&](EnergyKind kind) -> std::unique_ptr<GradientSink<T>> {
      if (!vectors) return nullptr;
      return make_product_gradient<T>(kind, q, k, scale, grad_q_, grad_k_);
    };
    switch (scores.energy_of(scheme)) {
      case ScoreOptions::Energy::dot:
        return product(EnergyKind::dot);
      case ScoreOptions::Energy::scaled_dot:
        return product(EnergyKind::scaled_dot);
      case ScoreOptions::Energy::gaussian:
        return product(EnergyKind::gaussian);
      case ScoreOptions::Energy::bilinear: {
        const MatrixView<T> grad_w = part("grad_w", q.cols, k.cols);
        if (!vectors && grad_w.data == nullptr) return nullptr;
        return make_bilinear_gradient<T>(q, k, head_.w(), scale, grad_q_, grad_k_, grad_w,
                                         threads_);
      }
      case ScoreOptions::Energy::mlp:
        break;
    }
    const MlpWeights<T> weights = head_.mlp_weights();
    const Index hidden = weights.w1.rows;
    const auto vector = [&](const char* name) {
      const MatrixView<T> view = part(name, 1, hidden);
      return view.data == nullptr ? std::span<T>()
                                  : std::span<T>(view.data, static_cast<std::size_t>(hidden));
    };
    MlpGradients<T> gradients;
    gradients.q = grad_q_;
    gradients.k = grad_k_;
    gradients.w1 = part("grad_w1", hidden, weights.w1.cols);
    gradients.w2 = vector("grad_w2");
    gradients.bias = vector("grad_b1");
    if (!vectors && gradients.w1.data == nullptr && gradients.w2.empty() &&
        gradients.bias.empty()) {
      return nullptr;
    }
    return make_mlp_gradient<T>(q, k, weights, scale, gradients, threads_);
  }

  std::vector<std::unique_ptr<GradientSink<T>>> bias_sinks() {
    std::vector<std::unique_ptr<GradientSink<T>>> sinks;
    if (input_.bias) {
      const auto gradient = part("grad_bias", input_.bias->rows, input_.bias->cols);
      if (gradient.data != nullptr) {
        sinks.push_back(make_bias_gradient<T>(input_.queries, input_.keys, gradient));
      }
    }
    if (!input_.rel_bias) return sinks;
    BucketRule rule;
    rule.bidirectional = input_.causal == Causal::none;
    rule.buckets = input_.rel_bias->rows;
    const Index heads = input_.rel_bias->cols;
    for (const char* name : {"grad_bias", "grad_rel_bias"}) {
      if (input_.bias && name == std::string("grad_bias")) continue;
      const MatrixView<T> table = part(name, rule.buckets, heads);
      if (table.data == nullptr) continue;
      clear(table);
      const MatrixView<T> column(table.data + head_.problem % heads, rule.buckets, 1, heads);
      sinks.push_back(
          make_t5_gradient<T>(input_.queries, input_.keys, input_.causal, rule, column));
    }
    return sinks;
  }

  // From the gradients of q = x wq and the like to those of x and wq.
  void project_back() {
    if (!projects()) return;
    const Index depth = input_.q->weights->rows;
    const MatrixView<T> grad_x = part("grad_x", input_.queries, depth);
    const MatrixView<T> grad_y =
        part(has_y() ? "grad_y" : "grad_x", input_.keys, input_.k->weights->rows);
    for (const MatrixView<T>& gradient : {grad_x, grad_y}) {
      if (gradient.data != nullptr) clear(gradient);
    }
    project_back(grad_q_, head_.made_of_q(), grad_x, "grad_wq");
    project_back(grad_k_, head_.made_of_k(), grad_y, "grad_wk");
    if (input_.v) project_back(grad_v_, head_.made_of_v(), grad_y, "grad_wv");
  }

  void project_back(MatrixView<const T> gradient, const Projected<T>& made,
                    MatrixView<T> grad_input, const std::string& of_weights) {
    if (grad_input.data != nullptr) {
      add_product_transposed_by_panels<T>(gradient, made.weights, grad_input, threads_);
    }
    const MatrixView<T> grad_w = part(of_weights, made.weights.rows, made.weights.cols);
    if (grad_w.data == nullptr) return;
    clear(grad_w);
    kernel::add_transposed_product(made.input, gradient, grad_w);
  }

  const ComputeOptions& options_;
  const AttentionInput& input_;
  const Head<T>& head_;
  int threads_;
  std::vector<Buffer<T>> parts_;
  Buffer<T> q_storage_, k_storage_, v_storage_;  // of projections
  MatrixView<T> grad_q_, grad_k_, grad_v_;
};

}  // namespace

template <class T>
std::vector<Buffer<T>> head_gradients(const ComputeOptions& options, const AttentionInput& input,
                                      const Head<T>& head, const SchemeOptions& scheme,
                                      const Attention& attention, MatrixView<const T> out,
                                      int threads) {
  return HeadGradients<T>(options, input, head, threads).compute(scheme, attention, out);
}

std::int64_t head_gradient_bytes(const ComputeOptions& options, const AttentionInput& input,
                                 std::size_t element_size, int threads) {
  if (!options.emits_gradients()) return 0;
  const Index queries = input.queries;
  const Index keys = input.keys;
  const Scheme scheme = options.scheme.scheme;
  const Index iterations = most_iterations(options.scheme);
  std::int64_t bytes = differentiate_bytes(scheme, queries, keys, input.v_head_dim, iterations,
                                           element_size, threads);
  if (!asks_for_scores(options)) return bytes;
  const Index lanes = gradient_lanes(keys, threads);
  bytes += bias_gradient_bytes(queries, keys, lanes) + t5_gradient_bytes(queries, keys, lanes);
  if (!input.q) return bytes;
  if (input.options.source == ScoreOptions::Source::projection) {
    bytes += (queries * input.q->cols + keys * (input.k->cols + input.v_head_dim)) *
             static_cast<std::int64_t>(element_size);
  }
  switch (input.options.energy_of(scheme)) {
    case ScoreOptions::Energy::dot:
    case ScoreOptions::Energy::scaled_dot:
      return bytes + product_gradient_bytes(EnergyKind::dot, queries, keys, input.depth,
                                            element_size, lanes);
    case ScoreOptions::Energy::gaussian:
      return bytes + product_gradient_bytes(EnergyKind::gaussian, queries, keys, input.depth,
                                            element_size, lanes);
    case ScoreOptions::Energy::bilinear:
      return bytes + bilinear_gradient_bytes(queries, keys, input.q->cols, input.k->cols,
                                             element_size, lanes);
    case ScoreOptions::Energy::mlp:
      return bytes + mlp_gradient_bytes(queries, keys, input.w1->rows, element_size, lanes);
  }
  return bytes;
}

double gradient_flops(const ComputeOptions& options, const AttentionInput& input) {
  if (!options.emits_gradients()) return 0;
  const Scheme scheme = options.scheme.scheme;
  const double values = 2 * input.pairs() * static_cast<double>(input.v_head_dim);
  // Scores are made once more; hnas has a pass for one of its outputs, and sinkhorn makes its
  // half-steps again and goes back through them.
  double passes = 1;
  double products = options.emits("grad_v") || options.emits("grad_wv") ? 1 : 0;
  if (scheme == Scheme::hnas) {
    passes += 1;
    products += 1;
  }
  if (scheme == Scheme::sinkhorn) {
    passes += 4 * static_cast<double>(most_iterations(options.scheme)) - 2;
    products += 1;
  }
  if (!asks_for_scores(options)) return input.score_flops(scheme, passes) + products * values;
  // G, and two more products as large as those that made the scores.
  return input.score_flops(scheme, passes + 2) + (products + 1) * values;
}

template std::vector<Buffer<float>> head_gradients(const ComputeOptions&, const AttentionInput&,
                                                   const Head<float>&, const SchemeOptions&,
                                                   const Attention&, MatrixView<const float>, int);
template std::vector<Buffer<double>> head_gradients(const ComputeOptions&, const AttentionInput&,
                                                    const Head<double>&, const SchemeOptions&,
                                                    const Attention&, MatrixView<const double>,
                                                    int);

}  // namespace attn::tools
