// sinkhorn: the two half-steps of dnas, repeated.

#include <algorithm>

#include "gradient/unrolled_adjoints.hpp"
#include "scheme/steps.hpp"
#include "scheme/table.hpp"
#include "scheme/typed_scheme.hpp"
#include "sinkhorn/attention_iterations.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

class SinkhornScheme final : public TypedScheme<SinkhornScheme> {
 public:
  Scheme scheme() const override { return Scheme::sinkhorn; }
  std::string_view name() const override { return "sinkhorn"; }
  std::string_view help() const override {
    return "repeats the two steps of dnas, which makes the column sums equal.";
  }
  std::string_view formula() const override {
    return "g_j = log sum_i exp(s_ij - f_i) - log(Lq/Lk), then f again, repeated";
  }
  bool is_iterated() const override { return true; }

  template <class T>
  void solve_for(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads, Attention& found) const {
    found.summary = iterate_attention(scores, found.allowed, options.stopping, options.kept_bytes,
                                      options.keeper, found.potentials, observers, threads);
  }

  template <class T>
  void show_for(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
                const RowSelection& rows, const ObserverList<T>& observers, int threads) const {
    if (options.stopping.fixed()) {
      return show_completed_rows<T>(scores, potentials.col, rows, observers, threads);
    }
    Pass<T> pass;
    pass.scores = &scores;
    pass.observers = observers;
    pass.rows = &rows;
    pass.completes = Completes::nothing;
    pass.components = {Component{1, potentials.row, potentials.col}};
    run(pass, threads);
  }

  template <class T>
  PooledVector<WeightAdjoint<T>> differentiate_for(const Forward<T>& forward,
                                                   const TileProduct<T>& products,
                                                   int threads) const {
    const Attention& attention = *forward.attention;
    const PooledVector<double> log_b(static_cast<std::size_t>(forward.scores->cols()),
                                     log_column_marginal(attention.allowed));
    const Potentials& found = attention.potentials;
    LastIteration last{delta_of(forward, products, found.row, found.col, threads), {}, true};
    for (double& delta : last.row) delta = -delta;
    return unrolled_adjoints(forward, products, {attention.summary.iterations, {}, log_b}, last,
                             threads);
  }

  std::optional<double> column_sum_bound(const BoundOf& of) const override {
    return 1.0 / of.largest_row_sum();
  }
  Partition output_partition(Index queries, Index keys, std::size_t element_size,
                             int /*threads*/) const override {
    return partition_of(Order::row_panels, queries, keys, element_size);
  }
  std::int64_t bytes(Index rows, Index cols, std::size_t element_size, int threads) const override {
    // Adds the next column potential and the marginal.
    return std::max(row_and_column_bytes(rows, cols, 1, element_size, threads),
                    sinkhorn_bytes(rows, cols, element_size, threads)) +
           2 * cols * static_cast<std::int64_t>(sizeof(double));
  }
  std::int64_t useful_bytes(const SchemeOptions& options, Index rows, Index cols,
                            std::size_t element_size) const override {
    return options.stopping.once() ? 0 : rows * cols * static_cast<std::int64_t>(element_size);
  }
  std::int64_t gradient_bytes(const GradientSizes& sizes,
                              const SchemeOptions& options) const override {
    return unrolled_bytes(sizes, options.stopping.most_iterations(), true);
  }
  double score_passes(const SchemeOptions& options) const override {
    const double half_steps = 2 * static_cast<double>(options.stopping.most_iterations());
    // Each check is half an iteration, and the weights are shown once more at the end.
    return options.stopping.fixed() ? half_steps : half_steps + 2;
  }
  // Half-steps are made again, and then taken back.
  SchemePasses gradient_passes(const SchemeOptions& options) const override {
    return {4 * static_cast<double>(options.stopping.most_iterations()) - 2, 1};
  }
};

}  // namespace

const SchemeDescription& sinkhorn_scheme() {
  static const SinkhornScheme scheme;
  return scheme;
}

}  // namespace attn
