#include "gradient/centred_values.hpp"

#include "gradient/adjoints.hpp"
#include "gradient/output_centre.hpp"
#include "kernel/magnitudes.hpp"
#include "pass/output.hpp"
#include "score/centred_pair.hpp"

namespace attn {

template <class T>
CentredValues<T>::CentredValues(const Forward<T>& forward, int threads)
    : forward_(forward), given_v_(forward.v) {
  forward_.v = values_in_use<T>(forward.v, forward.attention->allowed.queries_of_key, v_);
  // Centring needs rows that sum to 1, without dropout, and without a sink, whose value stays 0.
  if (forward.options.sink == no_sink && !forward.dropout.any()) centre(threads);
}

template <class T>
void CentredValues<T>::centre(int threads) {
  const MatrixView<const T> out = forward_.out;
  const OutputRows<T> rows{out, forward_.grad_out, forward_.attention->potentials.row};
  OutputCentre centre(out.cols);
  centre.add(rows);
  centre.complete();
  const OutputCentre::Distances distances = centre.distances(rows);
  if (!centre.centres(distances, kernel::largest_magnitude(forward_.v))) return;
  centred_v_ = Buffer<T>(forward_.v.rows * forward_.v.cols);
  out_ = Buffer<T>(out.rows * out.cols);
  mean_ = centre.mean();
  forward_.v = centred(forward_.v, mean_, centred_v_);
  forward_.out = centred(out, mean_, out_);
  // The gradients of transport do not start from the output.
  const bool from_output = forward_.options.scheme != Scheme::transport;
  if (!from_output || is_small(*forward_.scores) || !centre.hides(distances)) return;
  Output<T> output(forward_.v, {out_.data(), out.rows, out.cols});
  Potentials potentials = forward_.attention->potentials;
  show_weights<T>(*forward_.scores, potentials, forward_.options.hybrid, {&output}, threads);
}

template <class T>
MatrixView<const T> CentredValues<T>::values_of(std::span<const Index> queries_of_key,
                                                Buffer<T>& storage) const {
  const MatrixView<const T> used = values_in_use<T>(given_v_, queries_of_key, storage);
  if (mean_.empty()) return used;
  storage.reserve(used.rows * used.cols);
  return centred(used, mean_, storage);
}

template class CentredValues<float>;
template class CentredValues<double>;

}  // namespace attn
