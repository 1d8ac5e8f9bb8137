#include "mechanisms/highway_maxout.hpp"

#include <algorithm>

#include "attnkit/error.hpp"
#include "kernel/activation.hpp"
#include "kernel/product.hpp"
#include "mechanisms/places.hpp"

namespace attn::mechanisms {
namespace {

// Rows that are computed at a time: enough for fast products, few enough for a small panel.
Index maxout_panel_rows(Index positions, Index width, Index pieces) {
  const Index rows = (Index{1} << 20) / std::max<Index>(1, width * pieces);
  return std::min(positions, std::clamp<Index>(rows, 64, 256));
}

template <class T>
void add_to_rows(OwnedMatrix<T>& to, MatrixView<const T> row) {
  if (row.data == nullptr) return;
  for (Index i = 0; i < to.rows(); ++i) {
    for (Index c = 0; c < to.cols(); ++c) to.view()(i, c) += row.data[c];
  }
}

template <class T>
void add_row_sums(const OwnedMatrix<T>& from, MatrixView<T> to) {
  if (to.data == nullptr) return;
  for (Index i = 0; i < from.rows(); ++i) {
    for (Index c = 0; c < from.cols(); ++c) to.data[c] += from.read()(i, c);
  }
}

// The first of the largest pieces of each unit, and its value.
template <class T>
void take_maxima(const OwnedMatrix<T>& layer, Index pieces, MatrixView<T> maxima,
                 OwnedMatrix<std::int32_t>& piece) {
  require_finite(layer.data(), layer.size());  // a comparison would hide a NaN
  const Index width = maxima.cols;
  for (Index i = 0; i < layer.rows(); ++i) {
    const T* const x = layer.read().row(i);
    T* const most = maxima.row(i);
    std::int32_t* const which = piece.view().row(i);
    std::copy_n(x, width, most);
    std::fill_n(which, width, 0);
    for (Index p = 1; p < pieces; ++p) {
      for (Index c = 0; c < width; ++c) {
        if (!(x[p * width + c] > most[c])) continue;
        most[c] = x[p * width + c];
        which[c] = static_cast<std::int32_t>(p);
      }
    }
  }
}

// The reverse: from the gradient of the maxima to the gradient of the layer.
template <class T>
void give_to_pieces(MatrixView<const T> dmaxima, const OwnedMatrix<std::int32_t>& piece,
                    OwnedMatrix<T>& dlayer) {
  std::fill_n(dlayer.data(), dlayer.size(), T{0});
  for (Index i = 0; i < dlayer.rows(); ++i) {
    for (Index c = 0; c < dmaxima.cols; ++c) {
      dlayer.view()(i, piece.read()(i, c) * dmaxima.cols + c) = dmaxima(i, c);
    }
  }
}

template <class T>
MatrixView<T> columns_if(MatrixView<T> matrix, Index first, Index count) {
  return matrix.data == nullptr ? matrix : columns(matrix, first, count);
}

}  // namespace

// Some of the rows.
template <class T>
struct HighwayMaxout<T>::Panel {
  Panel(Index rows, Index width, Index pieces)
      : layer(rows, pieces * width),
        maxima(rows, 2 * width),
        last(rows, pieces),
        scores(rows, 1),
        first_piece(rows, width),
        second_piece(rows, width),
        last_piece(rows, 1) {}

  MatrixView<T> first() { return columns(maxima.view(), 0, maxima.cols() / 2); }
  MatrixView<T> second() { return columns(maxima.view(), maxima.cols() / 2, maxima.cols() / 2); }

  OwnedMatrix<T> layer;   // before the maxima: the first layer, then the second, (rows, PL)
  OwnedMatrix<T> maxima;  // [m₁; m₂]
  OwnedMatrix<T> last;    // W₃ [m₁; m₂] + b₃
  OwnedMatrix<T> scores;
  OwnedMatrix<std::int32_t> first_piece, second_piece, last_piece;
};

template <class T>
HighwayMaxout<T>::HighwayMaxout(const HighwayMaxoutTensors<const T>& weights) : weights_(weights) {
  if (pieces() > 0) return;
  throw Error(Failure::input, "a highway maxout network has 0 pieces, expected at least 1");
}

template <class T>
OwnedMatrix<T> HighwayMaxout<T>::reduced(MatrixView<const T> state) const {
  OwnedMatrix<T> r(1, width());
  kernel::multiply_transposed(state, weights_.w, r.view());
  require_finite(r.data(), r.size());
  kernel::tanh_row(r.data(), r.size(), r.data());
  return r;
}

// The part of the first layer that all rows share.
template <class T>
OwnedMatrix<T> HighwayMaxout<T>::of_state(const OwnedMatrix<T>& r) const {
  OwnedMatrix<T> common(1, weights_.w1.rows);
  kernel::multiply_transposed(r.read(), columns(weights_.w1, 2 * width(), width()), common.view());
  add_to_rows(common, weights_.b1);
  return common;
}

template <class T>
typename HighwayMaxout<T>::Panel HighwayMaxout<T>::panel(MatrixView<const T> u,
                                                         const OwnedMatrix<T>& common) const {
  Panel made(u.rows, width(), pieces());
  kernel::multiply_transposed(u, columns(weights_.w1, 0, 2 * width()), made.layer.view());
  add_to_rows(made.layer, common.read());
  take_maxima(made.layer, pieces(), made.first(), made.first_piece);
  kernel::multiply_transposed(MatrixView<const T>(made.first()), weights_.w2, made.layer.view());
  add_to_rows(made.layer, weights_.b2);
  take_maxima(made.layer, pieces(), made.second(), made.second_piece);
  kernel::multiply_transposed(made.maxima.read(), weights_.w3, made.last.view());
  add_to_rows(made.last, weights_.b3);
  take_maxima(made.last, pieces(), made.scores.view(), made.last_piece);
  return made;
}

template <class T>
void HighwayMaxout<T>::scores(MatrixView<const T> u, MatrixView<const T> state, T* scores) const {
  const OwnedMatrix<T> common = of_state(reduced(state));
  const Index rows = maxout_panel_rows(u.rows, width(), pieces());
  for (Index first = 0; first < u.rows; first += rows) {
    const Index count = std::min(rows, u.rows - first);
    const Panel some = panel(u.row_range(first, count), common);
    std::copy_n(some.scores.data(), count, scores + first);
  }
}

template <class T>
void HighwayMaxout<T>::differentiate(MatrixView<const T> u, MatrixView<const T> state,
                                     const T* dscores, const HighwayMaxoutTensors<T>& gradients,
                                     MatrixView<T> du, MatrixView<T> dstate) const {
  const OwnedMatrix<T> r = reduced(state);
  const OwnedMatrix<T> common = of_state(r);
  const auto of_u = columns(weights_.w1, 0, 2 * width());
  const auto dof_u = columns_if(gradients.w1, 0, 2 * width());
  OwnedMatrix<T> dcommon = OwnedMatrix<T>::zeros(1, common.cols());
  const Index rows = maxout_panel_rows(u.rows, width(), pieces());
  for (Index first = 0; first < u.rows; first += rows) {
    const Index count = std::min(rows, u.rows - first);
    const auto own = u.row_range(first, count);
    Panel some = panel(own, common);
    OwnedMatrix<T>& dlayer = some.layer;  // the layers themselves are no longer needed
    give_to_pieces<T>({dscores + first, count, 1}, some.last_piece, some.last);
    if (gradients.w3.data != nullptr) {
      kernel::add_transposed_product(some.last.read(), some.maxima.read(), gradients.w3);
    }
    add_row_sums(some.last, gradients.b3);
    OwnedMatrix<T> dmaxima(count, 2 * width());
    kernel::multiply(some.last.read(), weights_.w3, dmaxima.view());
    const auto dfirst = columns(dmaxima.view(), 0, width());

    give_to_pieces(columns(dmaxima.read(), width(), width()), some.second_piece, dlayer);
    if (gradients.w2.data != nullptr) {
      kernel::add_transposed_product(dlayer.read(), MatrixView<const T>(some.first()),
                                     gradients.w2);
    }
    add_row_sums(dlayer, gradients.b2);
    kernel::multiply_add(dlayer.read(), weights_.w2, dfirst);

    give_to_pieces(MatrixView<const T>(dfirst), some.first_piece, dlayer);
    if (dof_u.data != nullptr) kernel::add_transposed_product(dlayer.read(), own, dof_u);
    add_row_sums(dlayer, dcommon.view());
    if (du.data != nullptr) {
      kernel::multiply_add(dlayer.read(), of_u, du.row_range(first, count));
    }
  }
  add_row_sums(dcommon, gradients.b1);
  if (gradients.w1.data != nullptr) {
    kernel::add_transposed_product(dcommon.read(), r.read(),
                                   columns(gradients.w1, 2 * width(), width()));
  }
  OwnedMatrix<T> dr(1, width());
  kernel::multiply(dcommon.read(), columns(weights_.w1, 2 * width(), width()), dr.view());
  tanh_gradient(r.data(), r.size(), dr.data());
  if (gradients.w.data != nullptr) {
    kernel::add_transposed_product(dr.read(), state, gradients.w);
  }
  kernel::multiply_add(dr.read(), weights_.w, dstate);
}

template <class T>
std::int64_t HighwayMaxout<T>::bytes(Index positions, Index width, Index pieces, bool gradients) {
  constexpr auto number = static_cast<std::int64_t>(sizeof(T));
  const Index of_row = pieces * width + (gradients ? 4 : 2) * width + pieces + 1;
  return maxout_panel_rows(positions, width, pieces) *
             (of_row * number + (2 * width + 1) * std::int64_t{4}) +
         (2 * pieces + 2) * width * number;
}

template class HighwayMaxout<float>;
template class HighwayMaxout<double>;

}  // namespace attn::mechanisms
