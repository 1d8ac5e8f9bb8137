// dnas: softmax over queries, then each row divided by its sum.

#include "pass/one_pass.hpp"
#include "scheme/steps.hpp"
#include "scheme/table.hpp"
#include "scheme/typed_scheme.hpp"
#include "sinkhorn/one_iteration.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

class Dnas final : public TypedScheme<Dnas> {
 public:
  Scheme scheme() const override { return Scheme::dnas; }
  std::string_view name() const override { return "dnas"; }
  std::string_view help() const override {
    return "softmax over queries, then each row divided by its sum.";
  }
  std::string_view formula() const override { return "g_j = log sum_i exp(s_ij)"; }

  template <class T>
  void solve_for(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads, Attention& found) const {
    first_iteration<T>(scores, found.allowed, found.potentials.row, found.potentials.col, observers,
                       threads, options.sink);
  }

  template <class T>
  void show_for(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
                const RowSelection& rows, const ObserverList<T>& observers, int threads) const {
    show_completed_rows<T>(scores, potentials.col, rows, observers, threads, options.sink);
  }

  template <class T>
  PooledVector<WeightAdjoint<T>> differentiate_for(const Forward<T>& forward,
                                                   const TileProduct<T>& products,
                                                   int threads) const {
    const Potentials& found = forward.attention->potentials;
    return {row_and_column_adjoint<T>(found.row, found.col, 1,
                                      delta_of(forward, products, found.row, found.col, threads))};
  }

  std::optional<double> column_sum_bound(const BoundOf& of) const override {
    return 1.0 / of.largest_row_sum();
  }
  Partition output_partition(Index queries, Index keys, std::size_t element_size,
                             int threads) const override {
    return one_pass_columns_places(queries, keys, element_size, 1, threads);
  }
  std::int64_t bytes(Index rows, Index cols, std::size_t element_size, int threads) const override {
    return row_and_column_bytes(rows, cols, 1, element_size, threads);
  }
  std::int64_t gradient_bytes(const GradientSizes& sizes, const SchemeOptions&) const override {
    return differentiate_weights_bytes(sizes, {.open = true});
  }
  double score_passes(const SchemeOptions&) const override { return 2; }
};

}  // namespace

const SchemeDescription& dnas_scheme() {
  static const Dnas scheme;
  return scheme;
}

}  // namespace attn
