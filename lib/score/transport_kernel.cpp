#include "score/transport_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "kernel/tile.hpp"
#include "tensor/infinity.hpp"
#include "tensor/number_text.hpp"

namespace attn {
namespace {

double cost_over_gamma(double cost, double gamma, Index target, Index source) {
  const double scaled = cost / gamma;
  if (cost >= 0 && (std::isfinite(scaled) || std::isinf(cost))) return scaled;
  const std::string place = "the cost at " + index_text({target, source});
  if (cost >= 0) throw Error(Failure::numerical, place + " over gamma is beyond float64");
  throw Error(Failure::input,
              place + " is " + number_text(cost) + ", expected a number >= 0 or inf");
}

}  // namespace

template <class T>
TransportKernel::TransportKernel(const MatrixSource<T>& minus_cost, Index n, double gamma,
                                 std::string name)
    : gamma_(gamma),
      name_(std::move(name)),
      scaled_(n, n),
      exponentials_(n, n),
      least_(static_cast<std::size_t>(n)) {
  if (!(gamma > 0 && std::isfinite(gamma))) {
    throw Error(Failure::input,
                "gamma is " + number_text(gamma) + ", expected a finite number > 0");
  }
  std::fill(least_.begin(), least_.end(), infinity);
  const Buffer<T> row(n);
  for (Index t = 0; t < n; ++t) {
    minus_cost.read({t, 1, 0, n}, {row.data(), 1, n});
    for (Index i = 0; i < n; ++i) {
      const double scaled = cost_over_gamma(-static_cast<double>(row[i]), gamma, t, i);
      scaled_.row(i)[t] = scaled;
      double& least = least_[static_cast<std::size_t>(i)];
      least = std::min(least, scaled);
    }
  }
  for (Index i = 0; i < n; ++i) {
    double* const scaled = scaled_.row(i);
    double* const exponentials = exponentials_.row(i);
    const double least = least_[static_cast<std::size_t>(i)];
    for (Index t = 0; t < n && least != infinity; ++t) scaled[t] -= least;
    for (Index t = 0; t < n; ++t) exponentials[t] = -scaled[t];
    kernel::exp_row(exponentials, exponentials, n, nullptr, 0);
  }
}

template TransportKernel::TransportKernel(const MatrixSource<float>&, Index, double, std::string);
template TransportKernel::TransportKernel(const MatrixSource<double>&, Index, double, std::string);

}  // namespace attn
