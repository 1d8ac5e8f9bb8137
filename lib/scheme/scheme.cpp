#include "scheme/scheme.hpp"

#include <algorithm>
#include <cmath>

#include "pass/output.hpp"
#include "scheme/scheme_description.hpp"
#include "sinkhorn/attention_iterations.hpp"
#include "sinkhorn/gibbs_kernel.hpp"
#include "tensor/infinity.hpp"

namespace attn {

namespace {

// Without queries or keys, there is nothing to pass over.
template <class T>
void attend_nothing(Index rows, Index cols, bool mixture, const ObserverList<T>& observers,
                    Potentials& potentials) {
  const Partition none = partition_of(Order::row_panels, rows, cols, sizeof(T));
  for (Observer<T>* observer : observers) observer->start(none);
  for (Observer<T>* observer : observers) observer->finish();
  potentials.row.assign(static_cast<std::size_t>(rows), minus_infinity);
  potentials.col.assign(static_cast<std::size_t>(cols), minus_infinity);
  if (mixture) potentials.unas_row = potentials.row;
}

// A query with nothing allowed attends to the sink alone.
void close_over_sink(double sink, Potentials& potentials) {
  std::replace(potentials.row.begin(), potentials.row.end(), minus_infinity, sink);
  std::replace(potentials.unas_row.begin(), potentials.unas_row.end(), minus_infinity, sink);
}

}  // namespace

template <class T>
Attention attend(const Scores<T>& scores, const SchemeOptions& options,
                 const ObserverList<T>& observers, int threads) {
  Attention found;
  found.allowed = scores.allowed_counts();
  found.potentials.row.assign(static_cast<std::size_t>(scores.rows()), 0.0);
  found.potentials.col.assign(static_cast<std::size_t>(scores.cols()), 0.0);
  const SchemeDescription& scheme = description_of(options.scheme);
  if (scores.rows() == 0 || scores.cols() == 0) {
    attend_nothing<T>(scores.rows(), scores.cols(), scheme.is_mixture(), observers,
                      found.potentials);
  } else {
    scheme.solve(scores, options, observers, threads, found);
  }
  close_over_sink(options.sink, found.potentials);
  return found;
}

PooledVector<double> sink_weights(const Potentials& potentials, const SchemeOptions& options) {
  const double u = potentials.unas_row.empty() ? 1 : options.hybrid;
  PooledVector<double> weights(potentials.row.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = u * sink_weight(options.sink, potentials.row[i]);
    if (u == 1) continue;
    weights[i] += (1 - u) * sink_weight(options.sink, potentials.unas_row[i]);
  }
  return weights;
}

void add_sink_entropies(const PooledVector<double>& sink_weights, std::span<double> entropies) {
  for (std::size_t i = 0; i < entropies.size(); ++i) {
    const double weight = std::min(1.0, sink_weights[i]);
    if (weight > 0) entropies[i] -= weight * std::log(weight);
  }
}

template <class T>
void show_rows(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
               const RowSelection& rows, const ObserverList<T>& observers, int threads) {
  description_of(options.scheme).show(scores, options, potentials, rows, observers, threads);
}

std::int64_t output_bytes(Scheme scheme, Index queries, Index keys, Index depth,
                          std::size_t element_size, int threads) {
  const Partition partition =
      description_of(scheme).output_partition(queries, keys, element_size, threads);
  return element_size == sizeof(double) ? Output<double>::bytes(partition, depth)
                                        : Output<float>::bytes(partition, depth);
}

ItemParts attend_parts(Scheme scheme, bool gradients, Index rows, Index cols,
                       std::size_t element_size) {
  const Order order = description_of(scheme).output_partition(rows, cols, element_size, 1).order;
  return parts_of_problem(order, gradients, rows, cols, element_size);
}

std::int64_t attend_bytes(Scheme scheme, Index rows, Index cols, std::size_t element_size,
                          int threads) {
  const std::int64_t potentials = 2 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
  return description_of(scheme).bytes(rows, cols, element_size, threads) + potentials;
}

std::int64_t useful_attend_bytes(const SchemeOptions& options, Index rows, Index cols,
                                 std::size_t element_size, const RankRows& ranks) {
  const std::int64_t useful =
      description_of(options.scheme).useful_bytes(options, rows, cols, element_size);
  if (useful == 0) return 0;
  // The kept data are exponentials; each rank has a part of them.
  return std::min(useful, kept_kernel_bytes(rows, cols, element_size, ranks));
}

std::int64_t attend_state_bytes(Scheme scheme, Index rows, Index cols) {
  return description_of(scheme).is_iterated() ? iteration_state_bytes(rows, cols) : 0;
}

template Attention attend(const Scores<float>&, const SchemeOptions&, const ObserverList<float>&,
                          int);
template Attention attend(const Scores<double>&, const SchemeOptions&, const ObserverList<double>&,
                          int);
template void show_rows(const Scores<float>&, const SchemeOptions&, Potentials&,
                        const RowSelection&, const ObserverList<float>&, int);
template void show_rows(const Scores<double>&, const SchemeOptions&, Potentials&,
                        const RowSelection&, const ObserverList<double>&, int);

}  // namespace attn
