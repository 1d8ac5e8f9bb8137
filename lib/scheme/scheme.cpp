#include "scheme/scheme.hpp"

#include "pass/output.hpp"
#include "scheme/scheme_description.hpp"
#include "tensor/infinity.hpp"

namespace attn {

namespace {

// Without queries or without keys there is nothing to pass over.
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
  return found;
}

template <class T>
void show_rows(const Scores<T>& scores, const SchemeOptions& options, Potentials& potentials,
               const RowSelection& rows, const ObserverList<T>& observers, int threads) {
  description_of(options.scheme).show(scores, options, potentials, rows, observers, threads);
}

std::int64_t output_bytes(Scheme scheme, Index queries, Index keys, Index depth,
                          std::size_t element_size) {
  const Partition partition = description_of(scheme).output_partition(queries, keys, element_size);
  return element_size == sizeof(double) ? Output<double>::bytes(partition, depth)
                                        : Output<float>::bytes(partition, depth);
}

std::int64_t attend_bytes(Scheme scheme, Index rows, Index cols, std::size_t element_size,
                          int threads) {
  const std::int64_t potentials = 2 * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
  return description_of(scheme).bytes(rows, cols, element_size, threads) + potentials;
}

std::int64_t useful_attend_bytes(const SchemeOptions& options, Index rows, Index cols,
                                 std::size_t element_size) {
  return description_of(options.scheme).useful_bytes(options, rows, cols, element_size);
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
