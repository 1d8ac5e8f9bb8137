#include "transport/points.hpp"

#include <algorithm>
#include <numeric>

#include "gradient/plan_gradient.hpp"
#include "parallel/stop_flag.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

template <class T>
typename Scores<T>::Terms terms_of(const Energy<T>& energy) {
  typename Scores<T>::Terms terms;
  terms.energy = &energy;
  return terms;
}

// Room for further derivatives by both sides of points.
template <class T>
struct PointRoom {
  Buffer<T> q, k;
  TransportPoints<T> points;

  explicit PointRoom(const TransportPoints<T>& of)
      : q(of.from.q.rows * of.from.q.cols), k(of.from.k.rows * of.from.k.cols), points(of) {
    points.by = {
        {q.data(), of.from.q.rows, of.from.q.cols}, {k.data(), of.from.k.rows, of.from.k.cols}, {}};
  }
};

constexpr Index missing_tile = 256;  // lines of a tile of add_missing_gradient

template <class T>
void add(const Buffer<T>& from, MatrixView<T> to) {
  for (Index n = 0; to.data != nullptr && n < from.size(); ++n) to.data[n] += from[n];
}

// Adds `factor` times the derivatives by both copies of the points. `differentiate` shows the
// derivatives by the scores to the sinks of targets.
template <class T, class Differentiate>
void add_of_both_copies(const TransportPoints<T>& points, double factor,
                        const Differentiate& differentiate) {
  if (!points.wanted()) return;
  const PointRoom<T> room(points);
  ScoreDerivatives<T>{room.points}.write(differentiate);
  const Index numbers = points.from.q.rows * points.from.q.cols;
  for (Index n = 0; n < numbers; ++n) {
    points.by.q.data[n] += static_cast<T>(factor) * (room.q[n] + room.k[n]);
  }
}

}  // namespace

template <class T>
SelfScores<T>::SelfScores(const TransportPoints<T>& points)
    : energy_(points.energy->make(points.from)), scores_(terms_of(*energy_)) {}

template <class T>
void subtract_self_gradient(const TransportPoints<T>& points, const Scores<T>& scores,
                            const Potentials& potentials, int threads) {
  add_of_both_copies<T>(points, -0.5, [&](const GradientTargets<T>& targets) {
    differentiate_plan(scores, potentials, -1, targets, threads);
  });
}

template <class T>
void add_self_solution_gradient(const TransportPoints<T>& points, const Scores<T>& scores,
                                const Potentials& potentials, const ImplicitGradient& solved,
                                int threads) {
  add_of_both_copies<T>(points, 1, [&](const GradientTargets<T>& targets) {
    differentiate_solution<T>(scores, potentials, nullptr, solved.row, solved.col, targets,
                              threads);
  });
}

template <class T>
void write_plan_gradient(const TransportPoints<T>& points, const PooledVector<PlanPair>& pairs) {
  const auto sink = points.energy->differentiate(points.from, points.by);
  sink->start(1);
  for (const PlanPair& pair : pairs) {
    const T by_score = static_cast<T>(-pair.mass);
    sink->add({pair.row, 1, pair.col, 1}, {&by_score, 1, 1}, 0);
  }
  sink->merge(0, {});
  sink->finish();
}

template <class T>
void add_missing_gradient(const TransportPoints<T>& points, const PooledVector<double>& e,
                          const PooledVector<double>& d) {
  const double total = std::accumulate(d.begin(), d.end(), 0.0);
  if (!points.wanted() || total == 0) return;
  constexpr Index size = missing_tile;
  const Index rows = points.from.q.rows;
  const Index cols = points.from.k.rows;
  const PointRoom<T> room(points);
  const auto sink = points.energy->differentiate(points.from, room.points.by);
  Buffer<T> storage(size * size);
  sink->start(1);
  for (Index row0 = 0; row0 < rows; row0 += size) {
    stop_if_asked();
    for (Index col0 = 0; col0 < cols; col0 += size) {
      const TileRange range{row0, std::min(size, rows - row0), col0, std::min(size, cols - col0)};
      const MatrixView<T> tile(storage.data(), range.rows, range.cols);
      for (Index i = 0; i < range.rows; ++i) {
        const double share = -e[static_cast<std::size_t>(row0 + i)] / total;
        for (Index j = 0; j < range.cols; ++j) {
          tile(i, j) = static_cast<T>(share * d[static_cast<std::size_t>(col0 + j)]);
        }
      }
      sink->add(range, tile, 0);
    }
  }
  sink->merge(0, {});
  sink->finish();
  add(room.q, points.by.q);
  add(room.k, points.by.k);
}

std::int64_t missing_gradient_bytes(Index rows, Index cols, Index depth, std::size_t element_size) {
  return ((rows + cols) * depth + missing_tile * missing_tile) *
         static_cast<std::int64_t>(element_size);
}

#define ATTN_FOR_TYPE(T)                                                                       \
  template class SelfScores<T>;                                                                \
  template void subtract_self_gradient(const TransportPoints<T>&, const Scores<T>&,            \
                                       const Potentials&, int);                                \
  template void add_self_solution_gradient(const TransportPoints<T>&, const Scores<T>&,        \
                                           const Potentials&, const ImplicitGradient&, int);   \
  template void write_plan_gradient(const TransportPoints<T>&, const PooledVector<PlanPair>&); \
  template void add_missing_gradient(const TransportPoints<T>&, const PooledVector<double>&,   \
                                     const PooledVector<double>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
