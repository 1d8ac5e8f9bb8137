// transport: each key sends its preference to others, at a cost.

#include <algorithm>
#include <stdexcept>

#include "pass/selected_rows.hpp"
#include "scheme/table.hpp"
#include "scheme/transport_gradient.hpp"
#include "scheme/transport_rows.hpp"
#include "scheme/typed_scheme.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

template <class T>
struct RowScratch {
  std::optional<TransportRows<T>> rows;
  Buffer<T> tile;
};

// A pass by rows over the weights; `done(rows)` sees those of a panel.
template <class T, class Done>
void run_transport(const Scores<T>& scores, const RowSelection* chosen,
                   const ObserverList<T>& observers, int threads, std::span<double> potential,
                   const Done& done) {
  const Partition partition =
      partition_of(Order::row_panels, scores.rows(), scores.cols(), sizeof(T));
  for (Observer<T>* observer : observers) observer->start(partition);
  const SlotShare share = share_of<T>(partition, observers);
  auto workspaces = workspaces_for<RowScratch<T>>(threads);
  for_each_panel(
      share, threads, chosen, workspaces, [&](Index panel, Index slot, RowScratch<T>& scratch) {
        if (!scratch.rows)
          scratch.rows.emplace(scores, std::min(partition.panel, partition.rows), false);
        TransportRows<T>& rows = *scratch.rows;
        rows.make(partition.lines(panel));
        done(rows);
        for (Index col = 0; col < scores.cols() && !observers.empty(); col += pass_tile_length) {
          const TileRange range{rows.rows().first, rows.count(), col,
                                std::min(pass_tile_length, scores.cols() - col)};
          scratch.tile.reserve(range.rows * range.cols);
          const MatrixView<T> tile(scratch.tile.data(), range.rows, range.cols);
          for (Index i = 0; i < range.rows; ++i) {
            const double* const from = rows.weights().row(i) + col;
            std::transform(from, from + range.cols, tile.row(i),
                           [](double w) { return static_cast<T>(w); });
          }
          for (Observer<T>* observer : observers) {
            if (scores.empty(range) && !observer->wants_empty_tiles()) continue;
            if (chosen == nullptr) {
              observer->observe(WeightTile<T>{range, tile}, slot);
            } else {
              show_chosen(*chosen, WeightTile<T>{range, tile}, slot, *observer);
            }
          }
        }
      });
  share.complete_lines(potential);
  share_gathered<T>(observers, share);
  finish<T>(observers);
}

class Transport final : public TypedScheme<Transport> {
 public:
  Scheme scheme() const override { return Scheme::transport; }
  std::string_view name() const override { return "transport"; }
  std::string_view help() const override {
    return "each key i sends its preference to keys j, at a cost M_ji (datasets preference and "
           "cost).";
  }
  std::string_view formula() const override {
    return "weight_j = sum_i u_i K_ji exp(s_j)/Z_i, where K = exp(-M/gamma)";
  }
  bool has_preference() const override { return true; }
  bool is_transport() const override { return true; }

  template <class T>
  void solve_for(const Scores<T>& scores, const SchemeOptions&, const ObserverList<T>& observers,
                 int threads, Attention& found) const {
    run_transport<T>(scores, nullptr, observers, threads, found.potentials.row,
                     [&](const TransportRows<T>& rows) {
                       for (Index i = 0; i < rows.count(); ++i) {
                         found.potentials.row[static_cast<std::size_t>(rows.rows().first + i)] =
                             rows.potential(i);
                       }
                     });
    for (std::size_t i = 0; i < found.potentials.row.size(); ++i) {
      // The query may have keys as targets, but no source.
      if (found.potentials.row[i] == minus_infinity) found.allowed.keys_of_query[i] = 0;
    }
    for (std::size_t j = 0; j < found.potentials.col.size(); ++j) {
      if (found.allowed.queries_of_key[j] == 0) found.potentials.col[j] = minus_infinity;
    }
  }

  template <class T>
  void show_for(const Scores<T>& scores, const SchemeOptions&, Potentials&,
                const RowSelection& rows, const ObserverList<T>& observers, int threads) const {
    run_transport<T>(scores, &rows, observers, threads, {}, [](const TransportRows<T>&) {});
  }

  template <class T>
  PooledVector<WeightAdjoint<T>> differentiate_for(const Forward<T>&, const TileProduct<T>&,
                                                   int) const {
    throw std::logic_error("transport has no pair of potentials, see transport_gradient.hpp");
  }

  std::optional<double> column_sum_bound(const BoundOf&) const override { return std::nullopt; }
  Partition output_partition(Index queries, Index keys, std::size_t element_size,
                             int /*threads*/) const override {
    return partition_of(Order::row_panels, queries, keys, element_size);
  }
  std::int64_t bytes(Index rows, Index cols, std::size_t element_size, int threads) const override {
    const Partition partition = partition_of(Order::row_panels, rows, cols, element_size);
    const Index panel = std::min(partition.panel, rows);
    const std::int64_t of_thread =
        (element_size == sizeof(float) ? TransportRows<float>::bytes(panel, cols, false)
                                       : TransportRows<double>::bytes(panel, cols, false)) +
        panel * pass_tile_length * static_cast<Index>(element_size);
    return std::min<Index>(threads, std::max<Index>(1, partition.slots)) * of_thread;
  }
  std::int64_t gradient_bytes(const GradientSizes& sizes, const SchemeOptions&) const override {
    return transport_gradient_bytes(sizes);
  }
  double score_passes(const SchemeOptions&) const override { return 1; }
  double flops_among_keys(Index keys, bool gradients) const override {
    // Two products for the weights; then these again, two more, and two for the costs.
    return (gradients ? 12.0 : 4.0) * static_cast<double>(keys);
  }
};

}  // namespace

const SchemeDescription& transport_scheme() {
  static const Transport scheme;
  return scheme;
}

}  // namespace attn
