// hnas: the mixture u·dnas + (1−u)·unas.

#include "gradient/hybrid_deltas.hpp"
#include "pass/one_pass.hpp"
#include "pass/output.hpp"
#include "scheme/steps.hpp"
#include "scheme/table.hpp"
#include "scheme/typed_scheme.hpp"
#include "sinkhorn/one_iteration.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

using Numbers = PooledVector<double>;

// δ of both parts; in small problems, each from its own weights.
template <class T>
HybridDeltas deltas_of(const Forward<T>& forward, const TileProduct<T>& products, int threads) {
  const Potentials& found = forward.attention->potentials;
  if (is_small(*forward.scores)) {
    auto both =
        mean_products(forward, products, {{found.row, found.col}, {found.unas_row, {}}}, threads);
    return {std::move(both[0]), std::move(both[1])};
  }
  const double u = forward.options.hybrid;
  const bool dnas = HybridDeltas::makes_dnas(u);
  Potentials made;
  made.row = dnas ? found.row : found.unas_row;
  made.col = dnas ? found.col : Numbers(found.col.size(), 0.0);
  Buffer<T> storage(forward.out.rows * forward.out.cols);
  const MatrixView<T> out(storage.data(), forward.out.rows, forward.out.cols);
  Output<T> output(forward.v, out, forward.dropout);
  show_weights<T>(*forward.scores, made, 0, {&output}, threads);
  return hybrid_deltas(u, inner_products<T>(forward.grad_out, out),
                       inner_products(forward.grad_out, forward.out));
}

// Completes the rows of both parts and shows their mixture.
template <class T>
void complete_rows(const Scores<T>& scores, double hybrid, std::span<double> row,
                   std::span<double> col, std::span<double> unas_row,
                   const ObserverList<T>& observers, int threads, double sink,
                   const RowSelection* rows = nullptr) {
  RowPass<T> blocks{&scores, row, col, observers, rows, nullptr, sink};
  if (can_run_rows(blocks)) {
    blocks.softmax_row = unas_row;
    blocks.hybrid = hybrid;
    run_rows(blocks, threads);
    return;
  }
  Pass<T> pass;
  pass.scores = &scores;
  pass.completes = Completes::rows;
  pass.components = hybrid_components(hybrid, row, col, unas_row);
  pass.observers = observers;
  pass.sink = sink;
  pass.rows = rows;
  run(pass, threads);
}

class Hnas final : public TypedScheme<Hnas> {
 public:
  Scheme scheme() const override { return Scheme::hnas; }
  std::string_view name() const override { return "hnas"; }
  std::string_view help() const override { return "u dnas + (1-u) unas."; }
  std::string_view formula() const override { return "out = u out(dnas) + (1 - u) out(unas)"; }
  bool is_mixture() const override { return true; }

  template <class T>
  void solve_for(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads, Attention& found) const {
    Numbers& row = found.potentials.row;
    Numbers& col = found.potentials.col;
    Numbers& unas_row = found.potentials.unas_row;
    const double u = options.hybrid;
    unas_row.assign(row.size(), 0.0);
    // With u = 0 or 1, the mixture is one of the two schemes, to the last bit.
    if (u == 0 || u == 1) {
      const ObserverList<T> nobody;
      first_iteration<T>(scores, found.allowed, row, col, u == 1 ? observers : nobody, threads,
                         options.sink);
      run_rows<T>(
          {&scores, unas_row, {}, u == 0 ? observers : nobody, nullptr, nullptr, options.sink},
          threads);
      return;
    }
    if (!all_by_row(observers)) {
      first_columns<T>(scores, col, threads);
      complete_rows<T>(scores, u, row, col, unas_row, observers, threads, options.sink);
      return;
    }
    const auto left =
        one_pass_hybrid<T>(scores, u, row, unas_row, col, observers, threads, options.sink);
    Numbers completed(row.size());
    Numbers unas_completed(row.size());
    complete_rows_left<T>(scores, found.allowed, left,
                          hybrid_components(u, completed, col, unas_completed), {row, unas_row},
                          observers, threads, options.sink);
  }

  template <class T>
  void show_for(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
                const RowSelection& rows, const ObserverList<T>& observers, int threads) const {
    const double u = options.hybrid;
    const double sink = options.sink;
    if (u == 0) return show_completed_rows<T>(scores, {}, rows, observers, threads, sink);
    if (u == 1) {
      return show_completed_rows<T>(scores, potentials.col, rows, observers, threads, sink);
    }
    Numbers row(static_cast<std::size_t>(scores.rows()));
    Numbers unas_row(row.size());
    complete_rows<T>(scores, u, row, potentials.col, unas_row, observers, threads, sink, &rows);
  }

  template <class T>
  PooledVector<WeightAdjoint<T>> differentiate_for(const Forward<T>& forward,
                                                   const TileProduct<T>& products,
                                                   int threads) const {
    const Potentials& found = forward.attention->potentials;
    const double u = forward.options.hybrid;
    const HybridDeltas delta = deltas_of(forward, products, threads);
    return {row_and_column_adjoint<T>(found.row, found.col, u, delta.dnas),
            row_adjoint<T>(found.unas_row, Numbers(found.col.size(), 0.0), 1 - u, delta.unas)};
  }

  std::optional<double> column_sum_bound(const BoundOf& of) const override {
    if (of.hybrid > 0) return of.hybrid * (1.0 / of.largest_row_sum());
    return std::nullopt;
  }
  Partition output_partition(Index queries, Index keys, std::size_t element_size,
                             int threads) const override {
    return one_pass_columns_places(queries, keys, element_size, 2, threads);
  }
  std::int64_t bytes(Index rows, Index cols, std::size_t element_size, int threads) const override {
    return row_and_column_bytes(rows, cols, 2, element_size, threads);
  }
  std::int64_t gradient_bytes(const GradientSizes& sizes, const SchemeOptions&) const override {
    // The sum of `hybrid`, and the output of one part.
    return differentiate_weights_bytes(sizes, {.open = true, .several = true}) +
           2 * (sizes.rows + sizes.cols) * static_cast<std::int64_t>(sizeof(double)) +
           sizes.rows * sizes.v_head_dim * static_cast<std::int64_t>(sizes.element_size) +
           adjoint_pass_bytes(sizes);
  }
  double score_passes(const SchemeOptions&) const override { return 2; }
  SchemePasses gradient_passes(const SchemeOptions&) const override { return {1, 1}; }
};

}  // namespace

const SchemeDescription& hnas_scheme() {
  static const Hnas scheme;
  return scheme;
}

}  // namespace attn
