#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "feasibility/whole_marginals.hpp"
#include "kernel/magnitudes.hpp"
#include "parallel/parallel_for.hpp"
#include "pass/slot_share.hpp"
#include "sinkhorn/exact_bounds.hpp"
#include "sinkhorn/exact_transport.hpp"
#include "sinkhorn/network_simplex.hpp"
#include "tensor/buffer.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// Scores of float64 beyond 2^±most_exponent are multiplied by a power of two, so that their sums
// and units are in its range.
constexpr int most_exponent = 900;

constexpr Index fill_rows = 32;
constexpr Index fill_cols = pass_tile_length;

std::int64_t sum_of(const PooledVector<std::int64_t>& amounts) {
  return std::accumulate(amounts.begin(), amounts.end(), std::int64_t{0});
}

template <class T>
class SimplexSolver {
 public:
  SimplexSolver(const Scores<T>& scores, const Marginals& marginals, double gap,
                const ObserverList<T>& observers, int threads)
      : scores_(scores),
        marginals_(marginals),
        gap_(gap),
        observers_(observers),
        threads_(threads) {}

  ExactSolution solve() {
    found_.summary.method = ExactMethod::simplex;
    const double total = marginals_.total();
    if (total > 0) {
      pivot(total);
    } else {
      found_.potentials.col.assign(marginals_.col.size(), minus_infinity);
    }
    ExactSummary& summary = found_.summary;
    summary.rounding = exact_rounding<T> * size_ * total;
    summary.lower = bound_below(scores_, marginals_, found_.potentials, threads_);
    PlanSums<T> sums(scores_);
    ObserverList<T> observers = observers_;
    observers.push_back(&sums);
    show(observers);
    bound_above(sums, marginals_, gap_, size_, summary);
    summary.limited_by_rounding = summary.status == SolveStatus::not_converged;
    return std::move(found_);
  }

 private:
  // The rows of the matrix are the longer side, which makes fewer potentials change.
  const PooledVector<double>& long_marginal() const {
    return transposed_ ? marginals_.col : marginals_.row;
  }
  const PooledVector<double>& short_marginal() const {
    return transposed_ ? marginals_.row : marginals_.col;
  }

  void pivot(double total) {
    transposed_ = scores_.rows() < scores_.cols();
    const PooledVector<double>& a = long_marginal();
    const auto rows = static_cast<Index>(a.size());
    const auto cols = static_cast<Index>(short_marginal().size());
    const Buffer<T> storage(rows * cols);
    const MatrixView<T> matrix(storage.data(), rows, cols);
    WholeMarginals whole = in_whole_numbers(a, short_marginal(), total, 0);
    const auto largest = std::max_element(a.begin(), a.end()) - a.begin();
    const double unit = a[static_cast<std::size_t>(largest)] /
                        static_cast<double>(whole.supply[static_cast<std::size_t>(largest)]);
    // Rounding of the marginals, which the largest one takes.
    *std::max_element(whole.room.begin(), whole.room.end()) +=
        sum_of(whole.supply) - sum_of(whole.room);
    BasicPlan plan = solve_by_pivots<T>(
        matrix, [&] { fill(matrix); }, std::move(whole.supply), std::move(whole.room));
    found_.summary.iterations = plan.pivots;
    for (const Shipment& s : plan.shipments) {
      const double mass = unit * static_cast<double>(s.amount);
      found_.pairs.push_back(transposed_ ? PlanPair{s.col, s.row, mass}
                                         : PlanPair{s.row, s.col, mass});
    }
    std::sort(found_.pairs.begin(), found_.pairs.end(), [](const PlanPair& x, const PlanPair& y) {
      return std::pair(x.row, x.col) < std::pair(y.row, y.col);
    });
    found_.potentials = std::move(plan.potentials);
    if (transposed_) std::swap(found_.potentials.row, found_.potentials.col);
    for (auto* const side : {&found_.potentials.row, &found_.potentials.col}) {
      for (double& value : *side) value = std::ldexp(value, -exponent_);
    }
  }

  // Writes the scores times 2^exponent_, and finds the largest one between open lines.
  void fill(const MatrixView<T>& matrix) {
    fill_as_given(matrix);
    size_ = 0;
    for (Index i = 0; i < matrix.rows; ++i) {
      T* const row = matrix.row(i);
      for (Index j = 0; j < matrix.cols; ++j) {
        if (short_marginal()[static_cast<std::size_t>(j)] == 0) {
          row[j] = static_cast<T>(minus_infinity);
        }
      }
      if (long_marginal()[static_cast<std::size_t>(i)] == 0) continue;
      T largest = 0;
      bool any_negative = false;
      kernel::magnitudes(row, matrix.cols, &largest, &any_negative);
      size_ = std::max(size_, static_cast<double>(largest));
    }
    const int exponent = size_ > 0 ? std::ilogb(size_) : 0;
    exponent_ = std::abs(exponent) > most_exponent ? -exponent : 0;
    if (exponent_ == 0) return;
    for (Index i = 0; i < matrix.rows; ++i) {
      for (Index j = 0; j < matrix.cols; ++j) matrix(i, j) = std::ldexp(matrix(i, j), exponent_);
    }
  }

  void fill_as_given(const MatrixView<T>& matrix) const {
    struct Scratch {
      Buffer<T> tile;
      typename Scores<T>::Scratch scores;
    };
    auto scratches = workspaces_for<Scratch>(threads_);
    const Index blocks = (scores_.rows() + fill_rows - 1) / fill_rows;
    parallel_for(blocks, threads_, [&](Index block, int worker) {
      Scratch& scratch = scratches[static_cast<std::size_t>(worker)];
      TileRange range;
      range.row0 = block * fill_rows;
      range.rows = std::min(fill_rows, scores_.rows() - range.row0);
      for (range.col0 = 0; range.col0 < scores_.cols(); range.col0 += fill_cols) {
        range.cols = std::min(fill_cols, scores_.cols() - range.col0);
        if (!transposed_) {
          scores_.fill(
              range,
              {matrix.row(range.row0) + range.col0, range.rows, range.cols, matrix.row_stride},
              scratch.scores);
          continue;
        }
        scratch.tile.reserve(range.rows * range.cols);
        const MatrixView<T> tile(scratch.tile.data(), range.rows, range.cols);
        scores_.fill(range, tile, scratch.scores);
        for (Index j = 0; j < range.cols; ++j) {
          T* const row = matrix.row(range.col0 + j) + range.row0;
          for (Index i = 0; i < range.rows; ++i) row[i] = tile(i, j);
        }
      }
    });
  }

  // A pass that shows the pairs of the plan.
  void show(const ObserverList<T>& observers) const {
    const Index rows = scores_.rows(), cols = scores_.cols();
    const Partition partition = partition_of(Order::row_panels, rows, cols, sizeof(T));
    for (Observer<T>* const observer : observers) observer->start(partition);
    const SlotShare share = share_of<T>(partition, observers);
    auto workspaces = workspaces_for<Buffer<T>>(threads_);
    for_each_panel(share, threads_, nullptr, workspaces,
                   [&](Index panel, Index slot, Buffer<T>& storage) {
                     const RowRange lines = partition.lines(panel);
                     for (Index col = 0; col < cols; col += pass_tile_length) {
                       const TileRange range{lines.first, lines.last - lines.first, col,
                                             std::min(pass_tile_length, cols - col)};
                       show_tile(range, slot, storage, observers);
                     }
                   });
    share_gathered<T>(observers, share);
    finish<T>(observers);
  }

  void show_tile(const TileRange& range, Index slot, Buffer<T>& storage,
                 const ObserverList<T>& observers) const {
    storage.reserve(range.rows * range.cols);
    const MatrixView<T> tile(storage.data(), range.rows, range.cols);
    set_to_zero(tile);
    const auto by_row = [](const PlanPair& pair, Index row) { return pair.row < row; };
    auto pair = std::lower_bound(found_.pairs.begin(), found_.pairs.end(), range.row0, by_row);
    for (; pair != found_.pairs.end() && pair->row < range.row0 + range.rows; ++pair) {
      const Index col = pair->col - range.col0;
      if (col >= 0 && col < range.cols) {
        tile(pair->row - range.row0, col) = static_cast<T>(pair->mass);
      }
    }
    for (Observer<T>* const observer : observers) observer->observe({range, tile}, slot);
  }

  const Scores<T>& scores_;
  const Marginals& marginals_;
  double gap_;
  const ObserverList<T>& observers_;
  int threads_;
  double size_ = 0;          // the largest score in magnitude
  int exponent_ = 0;         // of the factor of the scores while pivoting
  bool transposed_ = false;  // the rows of the matrix are keys
  ExactSolution found_;
};

}  // namespace

template <class T>
ExactSolution solve_by_simplex(const Scores<T>& scores, const Marginals& marginals, double gap,
                               const ObserverList<T>& observers, int threads) {
  return SimplexSolver<T>(scores, marginals, gap, observers, threads).solve();
}

template ExactSolution solve_by_simplex(const Scores<float>&, const Marginals&, double,
                                        const ObserverList<float>&, int);
template ExactSolution solve_by_simplex(const Scores<double>&, const Marginals&, double,
                                        const ObserverList<double>&, int);

}  // namespace attn
