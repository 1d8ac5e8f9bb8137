// unas, and fenchel, which is unas of scores with a preference.

#include <limits>

#include "pass/one_pass.hpp"
#include "scheme/steps.hpp"
#include "scheme/table.hpp"
#include "scheme/typed_scheme.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

class Softmax final : public TypedScheme<Softmax> {
 public:
  Softmax(Scheme scheme, std::string_view name, std::string_view help, std::string_view formula,
          bool has_preference)
      : scheme_(scheme),
        name_(name),
        help_(help),
        formula_(formula),
        has_preference_(has_preference) {}

  Scheme scheme() const override { return scheme_; }
  std::string_view name() const override { return name_; }
  std::string_view help() const override { return help_; }
  std::string_view formula() const override { return formula_; }
  bool has_preference() const override { return has_preference_; }

  template <class T>
  void solve_for(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads, Attention& found) const {
    run_rows<T>({&scores, found.potentials.row, {}, observers, nullptr, nullptr, options.sink},
                threads);
    for (std::size_t j = 0; j < found.potentials.col.size(); ++j) {
      if (found.allowed.queries_of_key[j] > 0) continue;
      found.potentials.col[j] = -std::numeric_limits<double>::infinity();
    }
  }

  template <class T>
  void show_for(const Scores<T>& scores, const SchemeOptions& options, Potentials&,
                const RowSelection& rows, const ObserverList<T>& observers, int threads) const {
    show_completed_rows(scores, {}, rows, observers, threads, options.sink);
  }

  template <class T>
  PooledVector<WeightAdjoint<T>> differentiate_for(const Forward<T>& forward,
                                                   const TileProduct<T>& products,
                                                   int threads) const {
    const Potentials& found = forward.attention->potentials;
    return {row_adjoint<T>(found.row, PooledVector<double>(found.col.size(), 0.0), 1,
                           delta_of(forward, products, found.row, {}, threads))};
  }

  std::optional<double> column_sum_bound(const BoundOf&) const override { return std::nullopt; }
  Partition output_partition(Index queries, Index keys, std::size_t element_size,
                             int /*threads*/) const override {
    return partition_of(Order::row_panels, queries, keys, element_size);
  }
  std::int64_t bytes(Index rows, Index cols, std::size_t element_size, int threads) const override {
    return row_bytes(rows, cols, 1, element_size, threads);
  }
  std::int64_t gradient_bytes(const GradientSizes& sizes, const SchemeOptions&) const override {
    const auto element = static_cast<std::int64_t>(sizes.element_size);
    // The values of keys without a preference, and the products with them.
    const std::int64_t of_preference =
        has_preference_
            ? 2 * sizes.cols * sizes.v_head_dim * element +
                  tile_product_bytes(sizes.rows, sizes.cols, sizes.v_head_dim, sizes.element_size) +
                  (sizes.rows + sizes.cols) * static_cast<Index>(sizeof(Index))
            : 0;
    return differentiate_weights_bytes(sizes, {}) + of_preference +
           sizes.rows * sizes.v_head_dim * element;  // fold_rows
  }
  double score_passes(const SchemeOptions&) const override { return 1; }

 private:
  Scheme scheme_;
  std::string_view name_;
  std::string_view help_;
  std::string_view formula_;
  bool has_preference_;
};

}  // namespace

const SchemeDescription& unas_scheme() {
  static const Softmax scheme(Scheme::unas, "unas", "softmax over keys.", "g_j = 0", false);
  return scheme;
}

const SchemeDescription& fenchel_scheme() {
  static const Softmax scheme(Scheme::fenchel, "fenchel",
                              "softmax of alpha <q,k> + log preference (a dataset).",
                              "unas of the scores alpha <q_i, k_j> + log preference_ij", true);
  return scheme;
}

}  // namespace attn
