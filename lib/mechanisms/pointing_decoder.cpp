#include "mechanisms/pointing_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/tile.hpp"
#include "mechanisms/places.hpp"

namespace attn::mechanisms {
namespace {

// Scores become log softmax.
template <class T>
void log_softmax_row(T* s, Index n) {
  require_finite(s, n);
  const double shift = kernel::row_max(s, n, nullptr);
  OwnedMatrix<T> exponentials(1, n);
  const double log_sum = std::log(kernel::exp_row(exponentials.data(), s, n, nullptr, shift));
  for (Index t = 0; t < n; ++t) {
    s[t] = static_cast<T>((static_cast<double>(s[t]) - shift) - log_sum);
  }
}

// From the gradient with respect to log p that with respect to the scores: d_t ← d_t − p_t Σ d.
template <class T>
void log_softmax_gradient(const T* log_p, T* d, Index n) {
  double sum = 0;
  for (Index t = 0; t < n; ++t) sum += static_cast<double>(d[t]);
  for (Index t = 0; t < n; ++t) {
    d[t] =
        static_cast<T>(static_cast<double>(d[t]) - std::exp(static_cast<double>(log_p[t])) * sum);
  }
}

template <class T>
Index place_of_largest(const OwnedMatrix<T>& row, Index from) {
  return std::max_element(row.data() + from, row.data() + row.size()) - row.data();
}

}  // namespace

template <class T>
typename PointingDecoder<T>::Kept PointingDecoder<T>::forward(MatrixView<const T> u) const {
  const Index width = cell_.width();
  Kept kept;
  OwnedMatrix<T> h = OwnedMatrix<T>::zeros(1, width);
  OwnedMatrix<T> c = OwnedMatrix<T>::zeros(1, width);
  Span span = all(u);
  for (Index iteration = 0; iteration < decoding_.iterations; ++iteration) {
    OwnedMatrix<T> state(1, 5 * width);
    std::copy_n(u.row(span.start), 2 * width, state.data() + width);
    std::copy_n(u.row(span.end), 2 * width, state.data() + 3 * width);
    OwnedMatrix<T> gates = lstm_inputs(cell_, columns(state.read(), width, 4 * width));
    lstm_gates(cell_, h.data(), gates.data());
    OwnedMatrix<T> next_c(1, width);
    lstm_state<T>(gates.data(), c.data(), nullptr, width, next_c.data(), h.data());
    c = std::move(next_c);
    std::copy_n(h.data(), width, state.data());

    OwnedMatrix<T> start(1, u.rows);
    start_.scores(u, state.read(), start.data());
    log_softmax_row(start.data(), u.rows);
    OwnedMatrix<T> end(1, u.rows);
    end_.scores(u, state.read(), end.data());
    log_softmax_row(end.data(), u.rows);

    const Span before = span;
    span.start = place_of_largest(start, 0);
    span.end = place_of_largest(end, decoding_.end_after_start ? span.start : 0);
    kept.spans.push_back(span);
    kept.states.push_back(std::move(state));
    kept.start.push_back(std::move(start));
    kept.end.push_back(std::move(end));
    if (span == before) break;
  }
  return kept;
}

template <class T>
void PointingDecoder<T>::backward(MatrixView<const T> u, const Kept& kept,
                                  std::vector<OwnedMatrix<T>>& dstart,
                                  std::vector<OwnedMatrix<T>>& dend, const Gradients& gradients,
                                  MatrixView<T> du) const {
  const Index width = cell_.width();
  const Index made = std::ssize(kept.spans);
  // What the LSTM reads is fixed with the spans, so that it is a sequence as any other.
  OwnedMatrix<T> read(made, 4 * width);
  OwnedMatrix<T> dread(made, 4 * width);
  OwnedMatrix<T> dh(made, width);
  for (Index i = 0; i < made; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const OwnedMatrix<T>& state = kept.states[n];
    std::copy_n(state.data() + width, 4 * width, read.view().row(i));
    log_softmax_gradient(kept.start[n].data(), dstart[n].data(), u.rows);
    log_softmax_gradient(kept.end[n].data(), dend[n].data(), u.rows);
    OwnedMatrix<T> dstate = OwnedMatrix<T>::zeros(1, 5 * width);
    start_.differentiate(u, state.read(), dstart[n].data(), gradients.start, du, dstate.view());
    end_.differentiate(u, state.read(), dend[n].data(), gradients.end, du, dstate.view());
    std::copy_n(dstate.data(), width, dh.view().row(i));
    std::copy_n(dstate.data() + width, 4 * width, dread.view().row(i));
  }
  const Lstm<T> lstm(cell_, false);
  auto steps = lstm.forward(read.read());
  lstm.backward(read.read(), steps, dh, gradients.w, gradients.b, dread.view());
  Span span = all(u);
  for (Index i = 0; i < made; ++i) {
    const T* const own = dread.read().row(i);
    for (Index c = 0; c < 2 * width; ++c) du.row(span.start)[c] += own[c];
    for (Index c = 0; c < 2 * width; ++c) du.row(span.end)[c] += own[2 * width + c];
    span = kept.spans[static_cast<std::size_t>(i)];
  }
}

template <class T>
std::int64_t PointingDecoder<T>::bytes(Index positions, Index width, Index pieces,
                                       const Decoding& decoding, bool gradients) {
  const Index of_iteration = (gradients ? 4 : 2) * positions + (gradients ? 25 : 5) * width;
  return static_cast<std::int64_t>(sizeof(T)) *
             (decoding.iterations * of_iteration + positions + 16 * width) +
         HighwayMaxout<T>::bytes(positions, width, pieces, gradients);
}

template class PointingDecoder<float>;
template class PointingDecoder<double>;

}  // namespace attn::mechanisms
