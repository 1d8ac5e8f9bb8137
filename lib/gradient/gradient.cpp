#include "gradient/gradient.hpp"

#include <algorithm>
#include <functional>

#include "gradient/folded_rows.hpp"
#include "gradient/gradient_panels.hpp"
#include "kernel/magnitudes.hpp"
#include "kernel/packed.hpp"
#include "parallel/in_order.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

template <class T>
double run_panels(const Forward<T>& forward, const GradientTargets<T>& targets,
                  const TileProduct<T>& products, const PooledVector<WeightAdjoint<T>>& adjoints,
                  int threads) {
  GradientPanels<T> panels(forward, products, adjoints, targets);
  const PooledVector<GradientSink<T>*>& sinks = panels.sinks();
  const Partition partition =
      gradient_partition(forward.scores->rows(), forward.scores->cols(), sizeof(T), panels.open());
  const bool can_share =
      std::all_of(sinks.begin(), sinks.end(), [](const auto* sink) { return sink->can_share(); });
  const SlotShare share(partition, !can_share);
  const Index lanes = gradient_lanes(partition.cols, threads);
  for (GradientSink<T>* sink : sinks) sink->start(lanes);
  for (Index j = 0; targets.v.data != nullptr && j < targets.v.rows; ++j) {
    std::fill_n(targets.v.row(j), targets.v.cols, T{0});
  }
  PooledVector<typename GradientPanels<T>::Scratch> workspaces(static_cast<std::size_t>(lanes));
  const auto totals = [&](const RankShare::Visit& visit) {
    for (GradientSink<T>* sink : sinks) sink->visit_totals(visit);
  };
  add_in_order(
      share.own_count(), threads, share.divided() ? 1 : parts_of_sums(partition.rows, threads),
      [&](Index n, Index lane) {
        const Index slot = share.own_slot(n);
        for (Index p = partition.first_panel(slot); p < partition.first_panel(slot + 1); ++p) {
          stop_if_asked();
          panels.run(partition.lines(p), lane, workspaces[static_cast<std::size_t>(lane)]);
        }
      },
      [&](Index n, Index lane, SumPart part) {
        const auto merge = [&] {
          for (GradientSink<T>* sink : sinks) sink->merge(lane, part);
        };
        share.add_in_turn(share.own_slot(n), totals, std::ref(merge));
      });
  share.take_totals(totals);
  if (targets.v.data != nullptr) share.complete_lines(targets.v);
  if (panels.difference()) panels.difference()->share(share);
  for (GradientSink<T>* sink : sinks) {
    if (share.divided()) sink->share(share);
  }
  for (GradientSink<T>* sink : sinks) sink->finish();
  return panels.difference() ? panels.difference()->total() : 0;
}

}  // namespace

template <class T>
double differentiate_weights(const Forward<T>& forward, const TileProduct<T>& products,
                             PooledVector<WeightAdjoint<T>> adjoints,
                             const GradientTargets<T>& targets, int threads) {
  const auto largest = [](MatrixView<const T> of) {
    return static_cast<double>(kernel::largest_magnitude(of));
  };
  const bool folds = forward.folds && is_softmax(forward.options.scheme) &&
                     !is_small(*forward.scores) &&
                     folds_rows(forward.options, forward.scores->near_zero(),
                                largest(forward.grad_out), largest(forward.v));
  if (!folds) {
    return run_panels(forward, targets, products, adjoints, threads);
  }
  Buffer<T> scaled;
  fold_rows(forward.grad_out, adjoints.front(), scaled);
  Forward<T> folded = forward;
  folded.grad_out = {scaled.data(), forward.grad_out.rows, forward.grad_out.cols};
  const TileProduct<T> scaled_products(folded.grad_out, forward.v, T{1}, forward.dropout);
  return run_panels(folded, targets, scaled_products, adjoints, threads);
}

Index gradient_lanes(Index cols, int threads) {
  return std::clamp<Index>(threads, 1, gradient_partition(0, cols, sizeof(double), false).slots);
}

std::int64_t differentiate_weights_bytes(const GradientSizes& sizes, const AdjointNeeds& needs) {
  const Index rows = sizes.rows;
  const Index cols = sizes.cols;
  const auto element = static_cast<std::int64_t>(sizes.element_size);
  const Partition partition = gradient_partition(rows, cols, sizes.element_size, needs.open);
  const Index tile_rows = std::min(rows, gradient_tile_rows);
  const Index held =
      (needs.several ? 3 : 2) * (needs.open ? rows : tile_rows) + (needs.several ? tile_rows : 0);
  std::int64_t bytes =
      gradient_lanes(cols, sizes.threads) *
      (held * partition.panel * element + gradient_tile_rows * partition.panel * (2 * element + 1));
  const auto number = static_cast<std::int64_t>(sizeof(double));
  bytes += (rows + cols) * (needs.sets + 1) * number + (2 * rows + cols) * needs.sets * element;
  bytes += tile_product_bytes(rows, cols, sizes.v_head_dim, sizes.element_size);
  bytes += kernel::packed_bytes(rows, sizes.v_head_dim, sizes.element_size);
  bytes += (rows + 2 * cols) * sizes.v_head_dim * element;  // CentredValues
  return bytes;
}

std::int64_t adjoint_pass_bytes(const GradientSizes& sizes) {
  const Index rows = sizes.rows;
  const Index cols = sizes.cols;
  const Partition columns = partition_of(Order::column_panels, rows, cols, sizes.element_size);
  const auto pass = [&](Order order) {
    return pass_bytes(order, rows, cols, 1, sizes.element_size, sizes.threads);
  };
  return columns.slots * std::min(rows, pass_tile_length) * columns.panel *
             static_cast<std::int64_t>(sizes.element_size) +
         std::max(pass(Order::row_panels), pass(Order::column_panels));
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template double differentiate_weights(const Forward<T>&, const TileProduct<T>&,                  \
                                        PooledVector<WeightAdjoint<T>>, const GradientTargets<T>&, \
                                        int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
