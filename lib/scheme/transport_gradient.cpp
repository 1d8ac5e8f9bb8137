#include "scheme/transport_gradient.hpp"

#include <algorithm>
#include <memory>

#include "gradient/adjoints.hpp"
#include "gradient/gradient_panels.hpp"
#include "kernel/gradient.hpp"
#include "kernel/packed.hpp"
#include "parallel/in_order.hpp"
#include "parallel/parallel_for.hpp"
#include "pass/partition.hpp"
#include "scheme/transport_rows.hpp"

namespace attn {
namespace {

// Queries that a thread computes at a time, and sources whose costs it adds up at a time.
constexpr Index part_rows = 32;
constexpr Index part_sources = 128;
constexpr Index parts_of_block = gradient_tile_rows / part_rows;

template <class T>
MatrixView<T> narrowed(MatrixView<const double> from, const TileRange& of, Buffer<T>& storage) {
  storage.reserve(from.rows * of.cols);
  const MatrixView<T> to(storage.data(), from.rows, of.cols);
  for (Index i = 0; i < to.rows; ++i) {
    const double* const row = from.row(i) + of.col0;
    std::transform(row, row + of.cols, to.row(i), [](double x) { return static_cast<T>(x); });
  }
  return to;
}

template <class T>
class TransportGradient {
 public:
  TransportGradient(const Forward<T>& forward, const TileProduct<T>& products,
                    const GradientTargets<T>& targets, int threads)
      : forward_(forward),
        scores_(*forward.scores),
        products_(products),
        targets_(targets),
        threads_(threads),
        columns_(gradient_partition(scores_.rows(), scores_.cols(), sizeof(T), false)),
        lanes_(gradient_lanes(scores_.cols(), threads)),
        scratch_(static_cast<std::size_t>(lanes_)) {
    sinks_ = targets.scores;
    for (const auto* more : {&targets.energies, &targets.preferences}) {
      sinks_.insert(sinks_.end(), more->begin(), more->end());
    }
    if (targets.v.data != nullptr) grad_out_ = kernel::Packed<T>::of(forward.grad_out);
    if (targets.cost.data == nullptr) return;
    by_source_ = OwnedMatrix<double>::zeros(scores_.cols(), scores_.cols());
  }

  void run() {
    for (GradientSink<T>* sink : sinks_) sink->start(lanes_);
    for (Index j = 0; targets_.v.data != nullptr && j < targets_.v.rows; ++j) {
      std::fill_n(targets_.v.row(j), targets_.v.cols, T{0});
    }
    for (Index n = 0; n < std::min(parts_of_block, parts_in(scores_.rows())); ++n) {
      parts_.push_back(
          std::make_unique<TransportRows<T>>(scores_, std::min(part_rows, scores_.rows()), true));
    }
    for (Index row = 0; row < scores_.rows(); row += gradient_tile_rows) {
      run_block({row, std::min(row + gradient_tile_rows, scores_.rows())});
    }
    for (GradientSink<T>* sink : sinks_) sink->finish();
    if (targets_.cost.data != nullptr) finish_cost();
  }

 private:
  struct Scratch {
    Buffer<T> tile, energies;
  };

  static Index parts_in(Index rows) { return (rows + part_rows - 1) / part_rows; }

  void run_block(RowRange rows) {
    const Index parts = parts_in(rows.last - rows.first);
    parallel_for(parts, threads_, [&](Index n, int) {
      stop_if_asked();
      const Index first = rows.first + n * part_rows;
      make({first, std::min(first + part_rows, rows.last)}, *parts_[static_cast<std::size_t>(n)]);
    });
    add_in_order(
        columns_.slots, threads_, parts_of_sums(scores_.rows(), threads_),
        [&](Index slot, Index lane) {
          for (Index p = columns_.first_panel(slot); p < columns_.first_panel(slot + 1); ++p) {
            for (Index n = 0; n < parts; ++n) {
              show(*parts_[static_cast<std::size_t>(n)], columns_.lines(p), lane);
            }
          }
        },
        [&](Index, Index lane, SumPart part) {
          for (GradientSink<T>* sink : sinks_) sink->merge(lane, part);
        });
    if (targets_.cost.data != nullptr) add_cost(parts);
  }

  void make(RowRange rows, TransportRows<T>& part) {
    part.make(rows);
    if (sinks_.empty() && targets_.cost.data == nullptr) return;
    const MatrixView<double> to = part.products();
    Buffer<T> storage;
    for (Index col = 0; col < to.cols; col += pass_tile_length) {
      const TileRange tile{rows.first, to.rows, col, std::min(pass_tile_length, to.cols - col)};
      const MatrixView<const T> products = tile_products(forward_, products_, tile, storage);
      for (Index i = 0; i < tile.rows; ++i) {
        std::copy_n(products.row(i), tile.cols, to.row(i) + col);
      }
    }
    part.differentiate();
  }

  // Some queries × some keys.
  void show(const TransportRows<T>& part, RowRange keys, Index lane) {
    const TileRange tile{part.rows().first, part.count(), keys.first, keys.last - keys.first};
    Scratch& scratch = scratch_[static_cast<std::size_t>(lane)];
    if (targets_.v.data != nullptr) {
      const MatrixView<T> weights = narrowed(part.weights(), tile, scratch.tile);
      if (forward_.dropout.any()) forward_.dropout.apply(tile, weights);
      kernel::multiply_add_transposed_packed<T>(weights, grad_out_, tile.row0,
                                                targets_.v.row_range(tile.col0, tile.cols));
    }
    if (!targets_.preferences.empty()) {
      const MatrixView<T> gradient = narrowed(part.of_preference(), tile, scratch.tile);
      for (GradientSink<T>* sink : targets_.preferences) sink->add(tile, gradient, lane);
    }
    if (targets_.scores.empty() && targets_.energies.empty()) return;
    const MatrixView<T> gradient = narrowed(part.of_scores(), tile, scratch.tile);
    for (GradientSink<T>* sink : targets_.scores) sink->add(tile, gradient, lane);
    if (targets_.energies.empty()) return;
    scratch.energies.reserve(tile.rows * tile.cols);
    take_soft_cap<T>(scores_.terms(), tile, {scratch.energies.data(), tile.rows, tile.cols},
                     gradient);
    for (GradientSink<T>* sink : targets_.energies) sink->add(tile, gradient, lane);
  }

  void add_cost(Index parts) {
    const Index n = scores_.cols();
    const auto used = [&](const auto& body) {
      for (Index p = 0; p < parts; ++p) body(*parts_[static_cast<std::size_t>(p)]);
    };
    bool has_rest = false;
    used([&](const TransportRows<T>& part) { has_rest = has_rest || part.has_rest(); });
    if (has_rest && rest_.rows() == 0) rest_ = OwnedMatrix<double>::zeros(n, n);
    parallel_for((n + part_sources - 1) / part_sources, threads_, [&](Index item, int) {
      const RowRange sources{item * part_sources, std::min((item + 1) * part_sources, n)};
      const Index count = sources.last - sources.first;
      const MatrixView<double> rest =
          rest_.rows() == 0 ? MatrixView<double>() : rest_.view().row_range(sources.first, count);
      used([&](const TransportRows<T>& part) {
        part.add_cost(sources, by_source_.view().row_range(sources.first, count), rest);
      });
    });
  }

  void finish_cost() const {
    const TransportKernel& kernel = *scores_.terms().transport;
    for (Index t = 0; t < targets_.cost.rows; ++t) {
      for (Index i = 0; i < targets_.cost.cols; ++i) {
        double sum = by_source_.row(i)[t] * kernel.exponentials()(i, t);
        if (rest_.rows() > 0) sum += rest_.row(i)[t];
        targets_.cost(t, i) = static_cast<T>(-sum / kernel.gamma());
      }
    }
  }

  const Forward<T>& forward_;
  const Scores<T>& scores_;
  const TileProduct<T>& products_;
  const GradientTargets<T>& targets_;
  int threads_;
  Partition columns_;
  Index lanes_;
  PooledVector<GradientSink<T>*> sinks_;
  kernel::Packed<T> grad_out_;
  PooledVector<std::unique_ptr<TransportRows<T>>> parts_;  // of a block of queries
  PooledVector<Scratch> scratch_;                          // by lane
  OwnedMatrix<double> by_source_, rest_;                   // of the costs
};

}  // namespace

template <class T>
void differentiate_transport(const Forward<T>& forward, const TileProduct<T>& products,
                             const GradientTargets<T>& targets, int threads) {
  TransportGradient<T>(forward, products, targets, threads).run();
}

std::int64_t transport_gradient_bytes(const GradientSizes& sizes) {
  const auto element = static_cast<std::int64_t>(sizes.element_size);
  const Index rows = std::min(sizes.rows, gradient_tile_rows);
  const Index tile = part_rows * std::max(pass_tile_length, part_sources);
  const std::int64_t weights = sizes.element_size == sizeof(float)
                                   ? TransportRows<float>::bytes(rows, sizes.cols, true)
                                   : TransportRows<double>::bytes(rows, sizes.cols, true);
  return weights + 2 * sizes.cols * sizes.cols * static_cast<std::int64_t>(sizeof(double)) +
         (static_cast<Index>(parts_of_block) + sizes.threads) * sizes.cols *
             static_cast<std::int64_t>(sizeof(double)) +
         static_cast<Index>(sizes.threads) * 3 * tile * element +
         tile_product_bytes(sizes.rows, sizes.cols, sizes.v_head_dim, sizes.element_size) +
         kernel::packed_bytes(sizes.rows, sizes.v_head_dim, sizes.element_size) +
         (sizes.rows + 2 * sizes.cols) * sizes.v_head_dim * element;  // CentredValues
}

template void differentiate_transport(const Forward<float>&, const TileProduct<float>&,
                                      const GradientTargets<float>&, int);
template void differentiate_transport(const Forward<double>&, const TileProduct<double>&,
                                      const GradientTargets<double>&, int);

}  // namespace attn
