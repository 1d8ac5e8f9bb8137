#include "paths/rescale.hpp"

namespace attn {

template <class T>
void rescale_columns(MatrixView<T> w, std::span<const T> factors, Rescaled how) {
  for (Index i = 0; i < w.rows; ++i) {
    for (Index c = 0; c < w.cols; ++c) {
      const T factor = factors[static_cast<std::size_t>(c)];
      T& value = w(i, c);
      switch (how) {
        case Rescaled::times:
          value *= factor;
          break;
        case Rescaled::over:
          value /= factor;
          break;
        case Rescaled::over_square:
          value = value / factor / factor;
          break;
        case Rescaled::times_square:
          value = value * factor * factor;
          break;
      }
    }
  }
}

template void rescale_columns(MatrixView<float>, std::span<const float>, Rescaled);
template void rescale_columns(MatrixView<double>, std::span<const double>, Rescaled);

}  // namespace attn
