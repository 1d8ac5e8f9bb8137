#include "train/embedding.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace attn::train {
namespace {

// The positional terms from position `first` on.
template <class T>
OwnedMatrix<T> sinusoids(Index first, Index length, Index width) {
  OwnedMatrix<T> table(length, width);
  for (Index t = 0; t < length; ++t) {
    for (Index c = 0; c < width; ++c) {
      const auto pair = static_cast<double>(c - c % 2);
      const double angle =
          static_cast<double>(first + t) / std::pow(10000.0, pair / static_cast<double>(width));
      table.view()(t, c) = static_cast<T>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace

Embedding::Embedding(Parameters& parameters, const std::string& prefix, const Options& options,
                     std::uint32_t place)
    : options_(options), place_(place) {
  const auto add = options.tied ? &Parameters::add_matrix : &Parameters::add_table;
  table_ =
      (parameters.*add)(prefix + "tokens", options.vocabulary, options.width, options.deviation);
  if (options.positions == Positions::learned) {
    learned_ = parameters.add_matrix(prefix + "positions", options.length, options.width,
                                     options.deviation);
  }
}

template <class T>
OwnedMatrix<T> Embedding::forward(const Slot<T>& slot, const Sequences& sequences,
                                  const Index* tokens, Index first) const {
  const OwnedMatrix<T> computed = options_.positions == Positions::sinusoidal
                                      ? sinusoids<T>(first, sequences.length, options_.width)
                                      : OwnedMatrix<T>();
  const T* const positions = options_.positions == Positions::learned
                                 ? learned_.in(slot.weights).row(first)
                                 : std::as_const(computed).data();
  const MatrixView<const T> table = table_.in(slot.weights);
  OwnedMatrix<T> x(sequences.rows(), options_.width);
  for (Index r = 0; r < x.rows(); ++r) {
    T* const row = x.view().row(r);
    if (tokens[r] == padding_token) {
      std::fill_n(row, x.cols(), T{0});
      continue;
    }
    std::copy_n(table.row(tokens[r]), x.cols(), row);
    if (options_.positions == Positions::none) continue;
    add_row(row, positions + r % sequences.length * x.cols(), x.cols());
  }
  slot.dropout.apply(x, place_);
  return x;
}

template <class T>
void Embedding::backward(const Slot<T>& slot, const Sequences& sequences, const Index* tokens,
                         OwnedMatrix<T>& dx) const {
  slot.dropout.apply(dx, place_);
  if (options_.positions != Positions::learned) return;
  const MatrixView<T> sum = learned_.in(slot.gradients);
  set_to_zero(sum);
  for (Index r = 0; r < dx.rows(); ++r) {
    if (tokens[r] == padding_token) continue;
    add_row<T>(sum.row(r % sequences.length), dx.view().row(r), dx.cols());
  }
}

template <class T>
void Embedding::add_rows(const OwnedMatrix<T>& rows, const Index* tokens, T* gradients) const {
  const MatrixView<T> sum = table_.in(gradients);
  for (Index r = 0; r < rows.rows(); ++r) {
    if (tokens[r] == padding_token) continue;
    add_row<T>(sum.row(tokens[r]), rows.view().row(r), rows.cols());
  }
}

#define ATTN_EMBEDDING(T)                                                                    \
  template OwnedMatrix<T> Embedding::forward(const Slot<T>&, const Sequences&, const Index*, \
                                             Index) const;                                   \
  template void Embedding::backward(const Slot<T>&, const Sequences&, const Index*,          \
                                    OwnedMatrix<T>&) const;                                  \
  template void Embedding::add_rows(const OwnedMatrix<T>&, const Index*, T*) const;
ATTN_EMBEDDING(float)
ATTN_EMBEDDING(double)
#undef ATTN_EMBEDDING

}  // namespace attn::train
