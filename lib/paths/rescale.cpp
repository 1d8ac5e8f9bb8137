#include "paths/rescale.hpp"

#include "kernel/eigen_map.hpp"

namespace attn {

template <class T>
void rescale_columns(MatrixView<T> w, std::span<const T> factors, Rescaled how) {
  auto rows = kernel::eigen_map(w).array().rowwise();
  const auto by = kernel::eigen_map(MatrixView(factors.data(), 1, w.cols)).row(0).array();
  switch (how) {
    case Rescaled::times_square:
      rows *= by;
      [[fallthrough]];
    case Rescaled::times:
      rows *= by;
      break;
    case Rescaled::over_square:
      rows /= by;
      [[fallthrough]];
    case Rescaled::over:
      rows /= by;
      break;
  }
}

template void rescale_columns(MatrixView<float>, std::span<const float>, Rescaled);
template void rescale_columns(MatrixView<double>, std::span<const double>, Rescaled);

}  // namespace attn
