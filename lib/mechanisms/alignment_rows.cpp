#include "mechanisms/alignment_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/few_rows.hpp"
#include "kernel/gradient.hpp"
#include "kernel/product.hpp"
#include "kernel/terms.hpp"
#include "mechanisms/alignment.hpp"
#include "mechanisms/places.hpp"
#include "parallel/parallel_for.hpp"

namespace attn::mechanisms {
namespace {

// The hidden layer is a sum of three parts. With each part below a quarter of the range, no sum is
// beyond the range.
template <class T>
void require_range(MatrixView<const T> numbers) {
  constexpr T most = std::numeric_limits<T>::max() / 4;
  for (Index r = 0; r < numbers.rows; ++r) {
    const T* const row = numbers.row(r);
    if (std::all_of(row, row + numbers.cols, [](T one) { return std::abs(one) <= most; })) continue;
    throw Error(Failure::numerical,
                "the hidden layer of an energy is beyond the range of the type");
  }
}

// ψ at positions that count from 0.
double log_position(Index position) { return std::log1p(static_cast<double>(position + 1)); }

}  // namespace

template <class T>
AlignmentRows<T>::AlignmentRows(const Tensors<const T>& inputs, int threads)
    : threads_(threads),
      source_(matrix(inputs[Alignment::source])),
      target_(matrix(inputs[Alignment::target])),
      w_source_(matrix(inputs[Alignment::w_source])),
      w_target_(matrix(inputs[Alignment::w_target])),
      v_(matrix(inputs[Alignment::v])),
      w_position_(matrix(inputs[Alignment::w_position])),
      w_previous_(matrix(inputs[Alignment::w_previous])),
      places_(v_.cols, source_.rows),
      states_(target_.rows, v_.cols) {
  kernel::multiply_transposed(w_source_, source_, places_.view());
  kernel::multiply_transposed(target_, w_target_, states_.view());
  if (w_position_.data != nullptr) add_positions();
  require_range(places_.read());
  require_range(states_.read());
  if (!look_back()) return;
  // Weights sum to 1, so their part is at most as large as W_am.
  require_range(w_previous_);
  seen_ = OwnedMatrix<T>(places_.rows(), places_.cols());
  padded_ = OwnedMatrix<T>::zeros(1, places() + w_previous_.cols - 1);
}

template <class T>
Index AlignmentRows<T>::rows_at_once(Index places, bool look_back) {
  // A panel of at most 1 MiB, except for very long sources.
  constexpr Index most = (Index{1} << 20) / static_cast<Index>(sizeof(T));
  return look_back ? 1 : std::clamp<Index>(most / std::max<Index>(1, places), 1, 256);
}

// Calls use(part, first place, number of places) for all parts of a row.
template <class T>
template <class Use>
void AlignmentRows<T>::for_parts(const Use& use) const {
  parallel_for(place_parts(places()), threads_, [&](Index n, int /*worker*/) {
    use(n, n * places_at_once, std::min(places_at_once, places() - n * places_at_once));
  });
}

template <class T>
void AlignmentRows<T>::add_positions() {
  const auto add = [](T& to, double term) { to = static_cast<T>(static_cast<double>(to) + term); };
  const double of_length = log_position(places() - 1);
  for (Index a = 0; a < v_.cols; ++a) {
    const auto of_row = static_cast<double>(w_position_(a, 0));
    const auto of_place = static_cast<double>(w_position_(a, 1));
    const double constant = static_cast<double>(w_position_(a, 2)) * of_length;
    for (Index i = 0; i < places(); ++i) {
      add(places_.view()(a, i), of_place * log_position(i) + constant);
    }
    for (Index j = 0; j < rows(); ++j) add(states_.view()(j, a), of_row * log_position(j));
  }
}

template <class T>
void AlignmentRows<T>::set_previous(const T* weights) {
  if (!look_back()) return;
  T* const own = padded_.data() + w_previous_.cols / 2;
  if (weights == nullptr) {
    std::fill_n(own, places(), T{0});
  } else {
    std::copy_n(weights, places(), own);
  }
}

// ξ of these places, (2K+1, count): each row begins one place later in the same numbers.
template <class T>
MatrixView<const T> AlignmentRows<T>::windows(Index first, Index count) const {
  return {padded_.data() + first, w_previous_.cols, count, 1};
}

// The hidden layer of these places, without the part of the row.
template <class T>
MatrixView<const T> AlignmentRows<T>::hidden(Index first, Index count) {
  if (!look_back()) return columns(places_.read(), first, count);
  const MatrixView<T> seen = columns(seen_.view(), first, count);
  for (Index a = 0; a < seen.rows; ++a) {
    std::copy_n(places_.read().row(a) + first, count, seen.row(a));
  }
  kernel::few_rows_add(w_previous_, windows(first, count), seen);
  return seen;
}

template <class T>
void AlignmentRows<T>::weigh(Index first, MatrixView<T> weights) {
  const MatrixView<const T> states = states_.read().row_range(first, weights.rows);
  for_parts([&](Index /*n*/, Index at, Index count) {
    kernel::tanh_energy(states, hidden(at, count), v_.data, columns(weights, at, count));
  });
  for (Index r = 0; r < weights.rows; ++r) softmax_row(weights.row(r), weights.cols);
}

template <class T>
void AlignmentRows<T>::differentiate(Index first, MatrixView<const T> energies, T* previous) {
  if (dv_.data() == nullptr) {
    dplaces_ = OwnedMatrix<T>::zeros(places_.rows(), places_.cols());
    dstates_ = OwnedMatrix<T>::zeros(states_.rows(), states_.cols());
    dv_ = OwnedMatrix<double>::zeros(1, v_.cols);
    if (look_back()) {
      dseen_ = OwnedMatrix<T>(places_.rows(), places_.cols());
      dpadded_ = OwnedMatrix<T>(1, padded_.cols());
      dw_previous_ = OwnedMatrix<T>::zeros(w_previous_.rows, w_previous_.cols);
      w_by_place_ = OwnedMatrix<T>(w_previous_.cols, w_previous_.rows);
      for (Index i = 0; i < w_by_place_.size(); ++i) {
        const Index m = i / w_previous_.rows, a = i % w_previous_.rows;
        w_by_place_.data()[i] = w_previous_(a, m);
      }
    }
  }
  const Index count_of_rows = energies.rows;
  const MatrixView<const T> states = states_.read().row_range(first, count_of_rows);
  const Index parts = place_parts(places());
  OwnedMatrix<T> of_states = OwnedMatrix<T>::zeros(parts * count_of_rows, v_.cols);
  OwnedMatrix<double> of_v = OwnedMatrix<double>::zeros(parts, v_.cols);
  for_parts([&](Index n, Index at, Index count) {
    const MatrixView<T> own = columns((look_back() ? dseen_ : dplaces_).view(), at, count);
    if (look_back()) set_to_zero(own);
    kernel::add_tanh_gradient(states, hidden(at, count), v_.data, columns(energies, at, count),
                              of_states.view().row_range(n * count_of_rows, count_of_rows), own,
                              of_v.view().row(n));
  });
  T* const dstates = dstates_.view().row(first);
  for (Index n = 0; n < parts; ++n) {
    const T* const more = of_states.view().row(n * count_of_rows);
    for (Index i = 0; i < count_of_rows * v_.cols; ++i) dstates[i] += more[i];
    add_to(dv_, of_v.view().row(n));
  }
  if (look_back()) differentiate_windows(previous);
}

// The gradients of the term W_am ξ, from the gradient of the hidden layer.
template <class T>
void AlignmentRows<T>::differentiate_windows(T* previous) {
  add_to(dplaces_, dseen_.data());
  OwnedMatrix<T> product(w_previous_.rows, w_previous_.cols);
  kernel::few_rows_transposed(T{1}, dseen_.read(), windows(0, places()), product.view());
  add_to(dw_previous_, product.data());
  std::fill_n(dpadded_.data(), dpadded_.size(), T{0});
  for (Index m = 0; m < w_previous_.cols; ++m) {
    kernel::few_rows_add(w_by_place_.read().row_range(m, 1), dseen_.read(),
                         {dpadded_.data() + m, 1, places()});
  }
  std::copy_n(dpadded_.data() + w_previous_.cols / 2, places(), previous);
}

template <class T>
void AlignmentRows<T>::finish(const Tensors<T>& gradients) const {
  const auto of = [&](Alignment::Input input) { return matrix(gradients[input]); };
  if (dv_.data() == nullptr) {  // no rows
    for (std::size_t n = Alignment::target; n < gradients.size(); ++n)
      set_to_zero(matrix(gradients[n]));
    return;
  }
  if (of(Alignment::source).data != nullptr) {
    kernel::add_transposed_product(dplaces_.read(), w_source_, of(Alignment::source));
  }
  if (of(Alignment::target).data != nullptr) {
    kernel::multiply(dstates_.read(), w_target_, of(Alignment::target));
  }
  if (of(Alignment::w_source).data != nullptr) {
    kernel::multiply(dplaces_.read(), source_, of(Alignment::w_source));
  }
  if (of(Alignment::w_target).data != nullptr) {
    kernel::transposed_product(dstates_.read(), target_, of(Alignment::w_target));
  }
  if (of(Alignment::v).data != nullptr) std::copy_n(dv_.data(), dv_.size(), of(Alignment::v).data);
  if (of(Alignment::w_position).data != nullptr) finish_positions(of(Alignment::w_position));
  if (of(Alignment::w_previous).data != nullptr) {
    std::copy_n(dw_previous_.data(), dw_previous_.size(), of(Alignment::w_previous).data);
  }
}

template <class T>
void AlignmentRows<T>::finish_positions(MatrixView<T> dw_position) const {
  const double of_length = log_position(places() - 1);
  for (Index a = 0; a < v_.cols; ++a) {
    double row = 0, place = 0, length = 0;
    for (Index j = 0; j < rows(); ++j) {
      row += static_cast<double>(dstates_.read()(j, a)) * log_position(j);
    }
    for (Index i = 0; i < places(); ++i) {
      const auto one = static_cast<double>(dplaces_.read()(a, i));
      place += one * log_position(i);
      length += one * of_length;
    }
    dw_position(a, 0) = static_cast<T>(row);
    dw_position(a, 1) = static_cast<T>(place);
    dw_position(a, 2) = static_cast<T>(length);
  }
}

template <class T>
std::int64_t AlignmentRows<T>::bytes(const Sizes& sizes, bool gradients) {
  const Index places = sizes.at("I"), rows = sizes.at("J"), inner = sizes.at("A");
  const auto window = sizes.find("K");
  const bool look_back = window != sizes.end();
  Index numbers = (places + rows) * inner;
  if (look_back) numbers += places * inner + places + 2 * window->second;
  if (gradients) {
    numbers *= 2;
    if (look_back) numbers += 3 * inner * (2 * window->second + 1);
    // Partial sums over parts of the places.
    numbers += place_parts(places) * inner * std::min(rows, rows_at_once(places, look_back));
  }
  const auto bytes = static_cast<std::int64_t>(sizeof(T)) * numbers;
  constexpr auto wide = static_cast<std::int64_t>(sizeof(double));
  return bytes + (gradients ? (place_parts(places) + 1) * inner * wide : 0);
}

template class AlignmentRows<float>;
template class AlignmentRows<double>;

}  // namespace attn::mechanisms
