#include "gradient/output_centre.hpp"

#include <cmath>
#include <limits>

#include "kernel/magnitudes.hpp"
#include "score/centred_pair.hpp"

namespace attn {
namespace {

// How many times larger than their differences the values' common part may be: four bits.
constexpr double most_in_common = 16;

template <class T>
double magnitude_of(MatrixView<const T> matrix, Index row) {
  return static_cast<double>(kernel::largest_magnitude(matrix.row(row), matrix.cols));
}

template <class T>
double distance(MatrixView<const T> matrix, Index row, const PooledVector<double>& from) {
  double largest = 0;
  for (std::size_t c = 0; c < from.size(); ++c) {
    const auto value = static_cast<double>(matrix(row, static_cast<Index>(c)));
    largest = std::max(largest, std::abs(value - from[c]));
  }
  return largest;
}

template <class T>
bool is_live(const OutputRows<T>& rows, Index i) {
  return !std::isinf(rows.f[static_cast<std::size_t>(i)]) && magnitude_of(rows.grad_out, i) > 0;
}

}  // namespace

template <class T>
void OutputCentre::add(const OutputRows<T>& rows) {
  for (Index i = 0; i < rows.out.rows; ++i) {
    if (!is_live(rows, i)) continue;
    add_rows(rows.out.row_range(i, 1), mean_);
    ++live_;
  }
}

void OutputCentre::visit(const std::function<void(std::span<std::byte> bytes)>& visit) {
  visit(std::as_writable_bytes(std::span(mean_)));
  visit(std::as_writable_bytes(std::span(&live_, 1)));
}

void OutputCentre::complete() {
  for (double& m : mean_) m /= static_cast<double>(live_);
}

template <class T>
OutputCentre::Distances OutputCentre::distances(const OutputRows<T>& rows) const {
  Distances found;
  for (Index i = 0; i < rows.out.rows; ++i) {
    if (!is_live(rows, i)) continue;
    const double from_mean = distance(rows.out, i, mean_);
    // NaN fails the comparison.
    if (!(from_mean <= magnitude_of(rows.out, i) / 2)) return {false, 0};
    found.largest = std::max(found.largest, from_mean);
  }
  return found;
}

template <class T>
bool OutputCentre::centres(const Distances& all, T largest_value) const {
  return all.halved && live_ > 0 && largest_value <= std::numeric_limits<T>::max() / 4;
}

bool OutputCentre::hides(const Distances& all) const {
  double common = 0;
  for (const double m : mean_) common = std::max(common, std::abs(m));
  return common > most_in_common * all.largest;
}

template <class T>
MatrixView<const T> values_in_use(MatrixView<const T> v, std::span<const Index> queries_of_key,
                                  Buffer<T>& storage) {
  if (std::find(queries_of_key.begin(), queries_of_key.end(), 0) == queries_of_key.end()) return v;
  storage = Buffer<T>(v.rows * v.cols);
  for (Index j = 0; j < v.rows; ++j) {
    T* to = storage.data() + j * v.cols;
    if (queries_of_key[static_cast<std::size_t>(j)] == 0) {
      std::fill_n(to, v.cols, T{0});
    } else {
      std::copy_n(v.row(j), v.cols, to);
    }
  }
  return {storage.data(), v.rows, v.cols};
}

#define ATTN_FOR_TYPE(T)                                                                  \
  template void OutputCentre::add(const OutputRows<T>&);                                  \
  template OutputCentre::Distances OutputCentre::distances(const OutputRows<T>&) const;   \
  template bool OutputCentre::centres(const Distances&, T) const;                         \
  template MatrixView<const T> values_in_use(MatrixView<const T>, std::span<const Index>, \
                                             Buffer<T>&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
