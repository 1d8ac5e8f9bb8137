#include "train/recurrent_layer.hpp"

#include <algorithm>

#include "train/start_deviation.hpp"

namespace attn::train {

RecurrentLayer::RecurrentLayer(Parameters& parameters, const std::string& prefix,
                               const Options& options)
    : options_(options) {
  const Index rows = gates() * options.width;
  const Index cols = options.width + options.inputs;
  const double deviation = start_deviation(options.deviation, options.width, cols);
  for (const char* const direction : {"", "back_"}) {
    const std::string name = prefix + direction;
    tensors_.push_back({parameters.add_matrix(name + "w", rows, cols, deviation),
                        parameters.add_vector(name + "b", rows, 0)});
    if (!options.both_ways) break;
  }
}

template <class T, class Body>
void RecurrentLayer::with_cell(const Slot<T>& slot, Index direction, Kept<T>& kept,
                               const Body& body) const {
  const Tensors& tensors = tensors_[static_cast<std::size_t>(direction)];
  const MatrixView<const T> w = tensors.w.in(slot.weights);
  const MatrixView<const T> b = {slot.weights + tensors.b, 1, w.rows};
  if (options_.cell == RecurrentCell::lstm) {
    body(mechanisms::Lstm<T>({w, b}, direction == 1), kept.lstm);
  } else {
    body(mechanisms::Gru<T>({w, b}, direction == 1), kept.gru);
  }
}

template <class T>
OwnedMatrix<T> RecurrentLayer::forward(const Slot<T>& slot, const Sequences& sequences,
                                       MatrixView<const T> x, Kept<T>& kept) const {
  OwnedMatrix<T> y = OwnedMatrix<T>::zeros(sequences.rows(), outputs());
  for (Index direction = 0; direction < directions(); ++direction) {
    with_cell(slot, direction, kept, [&](const auto& cell, auto& all) {
      for (Index n = 0; n < sequences.count; ++n) {
        const Index first = n * sequences.length;
        all.push_back(cell.forward(x.row_range(first, sequences.own_length(n))));
        const auto& h = all.back().h;
        for (Index t = 0; t < h.rows(); ++t) {
          std::copy_n(h.read().row(t), options_.width,
                      y.view().row(first + t) + direction * options_.width);
        }
      }
    });
  }
  return y;
}

template <class T>
void RecurrentLayer::backward(const Slot<T>& slot, const Sequences& sequences,
                              MatrixView<const T> x, Kept<T>& kept, MatrixView<const T> dy,
                              MatrixView<T> dx) const {
  for (Index direction = 0; direction < directions(); ++direction) {
    const Tensors& tensors = tensors_[static_cast<std::size_t>(direction)];
    const MatrixView<T> dw = tensors.w.in(slot.gradients);
    const MatrixView<T> db = {slot.gradients + tensors.b, 1, dw.rows};
    set_to_zero(dw);
    set_to_zero(db);
    with_cell(slot, direction, kept, [&](const auto& cell, auto& all) {
      for (Index n = 0; n < sequences.count; ++n) {
        const Index first = n * sequences.length;
        const Index length = sequences.own_length(n);
        OwnedMatrix<T> dh(length, options_.width);
        for (Index t = 0; t < length; ++t) {
          std::copy_n(dy.row(first + t) + direction * options_.width, options_.width,
                      dh.view().row(t));
        }
        cell.backward(x.row_range(first, length),
                      all[static_cast<std::size_t>(direction * sequences.count + n)], dh, dw, db,
                      dx.row_range(first, length));
      }
    });
  }
}

template <class T>
PassBytes RecurrentLayer::bytes(const Sequences& sequences) const {
  const Index width = options_.width;
  // Gates, h, and c of an lstm.
  const Index numbers = (gates() + 2) * width;
  const std::int64_t kept =
      directions() * sequences.count * row_bytes<T>(sequences.length, numbers + 2);
  std::int64_t of_step = 4 * row_bytes<T>(1, gates() * width);
  if (options_.cell == RecurrentCell::lstm && sequences.length >= mechanisms::lstm_steps_to_copy) {
    of_step += row_bytes<T>(width, gates() * width);
  }
  const std::int64_t of_sequence = 3 * row_bytes<T>(sequences.length, width);
  return {kept, row_bytes<T>(sequences.rows(), outputs()) + of_step, of_sequence + of_step};
}

#define ATTN_RECURRENT_LAYER(T)                                                                 \
  template OwnedMatrix<T> RecurrentLayer::forward(const Slot<T>&, const Sequences&,             \
                                                  MatrixView<const T>, Kept<T>&) const;         \
  template void RecurrentLayer::backward(const Slot<T>&, const Sequences&, MatrixView<const T>, \
                                         Kept<T>&, MatrixView<const T>, MatrixView<T>) const;   \
  template PassBytes RecurrentLayer::bytes<T>(const Sequences&) const;
ATTN_RECURRENT_LAYER(float)
ATTN_RECURRENT_LAYER(double)
#undef ATTN_RECURRENT_LAYER

}  // namespace attn::train
