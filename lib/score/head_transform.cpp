#include "score/head_transform.hpp"

#include <algorithm>
#include <cmath>

#include "attnkit/error.hpp"
#include "score/panel_product.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

struct Moments {
  double mean = 0;
  double squares = 0;  // the sum of squared deviations
};

template <class T>
Moments moments_of(const HeadNorm& norm, const T* u, Index channels) {
  Moments found;
  for (Index c = 0; norm.centred && c < channels; ++c) found.mean += static_cast<double>(u[c]);
  found.mean /= static_cast<double>(channels);
  for (Index c = 0; c < channels; ++c) {
    const double deviation = static_cast<double>(u[c]) - found.mean;
    found.squares += deviation * deviation;
  }
  return found;
}

[[noreturn]] void refuse(const std::function<std::string()>& what, Index row) {
  throw_beyond_range<double>("the sum of squares of row " + std::to_string(row) + " of " + what() +
                             " is beyond the range of");
}

// 1 / sqrt(mean + ε)
double scale_of(const HeadNorm& norm, double squares, Index channels) {
  return 1 / std::sqrt(squares / static_cast<double>(channels) + norm.epsilon);
}

// μ and r of a row, of which u holds the channels of a head.
template <class T>
Moments mean_and_scale(const HeadRows& with, Index row, const T* u, Index channels) {
  if (!with.sees(row)) return {};
  if (with.moments != nullptr) return {with.moments[2 * row], with.moments[2 * row + 1]};
  Moments found = moments_of(*with.transform->norm, u, channels);
  found.squares = scale_of(*with.transform->norm, found.squares, channels);
  return found;
}

// The numbers of one head among `size`, those of all heads, or of each.
template <class T>
T* of_head(T* numbers, Index size, const HeadRows& with, Index channels) {
  return size == 0 ? nullptr : numbers + (size == channels ? 0 : with.head * channels);
}

const double* of_head(const std::vector<double>& numbers, const HeadRows& with, Index channels) {
  return of_head(numbers.data(), std::ssize(numbers), with, channels);
}

// Rotates by the position. A negative position rotates back, which is the adjoint.
void rotate(const Rotary& rotary, double position, double* channels) {
  const Index pairs = rotary.pairs();
  for (Index i = 0; i < pairs; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const double angle = position * rotary.frequencies[n];
    const double cosine = std::cos(angle) * rotary.factors[n];
    const double sine = std::sin(angle) * rotary.factors[n];
    double& a = channels[rotary.interleaved ? 2 * i : i];
    double& b = channels[rotary.interleaved ? 2 * i + 1 : i + pairs];
    const double before = a;
    a = before * cosine - b * sine;
    b = b * cosine + before * sine;
  }
}

// Calls body(row, numbers) for each row, with its numbers in float64, and rounds them again.
template <class T, class Body>
void for_rows(MatrixView<T> rows, int threads, const Body& body) {
  for_panels(rows.rows, threads, [&](Index first, Index count) {
    PooledVector<double> numbers(static_cast<std::size_t>(rows.cols));
    for (Index i = first; i < first + count; ++i) {
      std::copy_n(rows.row(i), rows.cols, numbers.begin());
      body(i, numbers.data());
      std::transform(numbers.begin(), numbers.end(), rows.row(i),
                     [](double number) { return static_cast<T>(number); });
    }
  });
}

void apply_norm(const HeadRows& with, Index row, double* u, Index channels,
                const std::function<std::string()>& what) {
  const HeadNorm& norm = *with.transform->norm;
  const auto [mean, scale] = mean_and_scale(with, row, u, channels);
  // The scale is 0 if the sum of squares is infinite.
  if (scale == 0) refuse(what, row);
  const double* const weights = of_head(norm.weights, with, channels);
  const double* const bias = of_head(norm.bias, with, channels);
  for (Index c = 0; c < channels; ++c) {
    u[c] = (u[c] - mean) * scale * weights[c] + (bias == nullptr ? 0 : bias[c]);
  }
}

}  // namespace

template <class T>
void add_moments(const HeadNorm& norm, Index count, MatrixView<const T> u,
                 std::span<double> moments, int threads) {
  const auto before = static_cast<double>(count);
  const auto own = static_cast<double>(u.cols);
  for_panels(u.rows, threads, [&](Index first, Index rows) {
    for (Index i = first; i < first + rows; ++i) {
      const Moments found = moments_of(norm, u.row(i), u.cols);
      double& mean = moments[static_cast<std::size_t>(2 * i)];
      double& squares = moments[static_cast<std::size_t>(2 * i + 1)];
      const double shift = found.mean - mean;
      squares += found.squares + shift * shift * before * own / (before + own);
      mean += shift * own / (before + own);
    }
  });
}

void finish_moments(const HeadRows& with, Index count, std::span<double> moments,
                    const std::function<std::string()>& what) {
  for (std::size_t at = 1; at < moments.size(); at += 2) {
    const auto row = static_cast<Index>(at / 2);
    if (!with.sees(row)) {
      moments[at - 1] = moments[at] = 0;
      continue;
    }
    if (!std::isfinite(moments[at])) refuse(what, row);
    moments[at] = scale_of(*with.transform->norm, moments[at], count);
  }
}

template <class T>
void transform_rows(const HeadRows& with, MatrixView<T> rows, int threads,
                    const std::function<std::string()>& what) {
  const HeadTransform& transform = *with.transform;
  for_rows(rows, threads, [&](Index row, double* numbers) {
    if (!with.sees(row)) {
      std::fill_n(numbers, rows.cols, 0.0);
      return;
    }
    if (transform.norm) apply_norm(with, row, numbers, rows.cols, what);
    if (transform.rotary) {
      rotate(*transform.rotary, static_cast<double>(with.positions.at(row)), numbers);
    }
    const bool finite = std::all_of(numbers, numbers + rows.cols, [](double number) {
      return std::isfinite(static_cast<T>(number));
    });
    if (!finite) {
      throw_beyond_range<T>("row " + std::to_string(row) + " of " + what() +
                            ", after norm and rotation, is beyond the range of");
    }
  });
}

template <class T>
void rotate_back(const HeadRows& with, MatrixView<T> grad, int threads) {
  const std::optional<Rotary>& rotary = with.transform->rotary;
  if (!rotary) return;
  for_rows(grad, threads, [&](Index row, double* numbers) {
    rotate(*rotary, -static_cast<double>(with.positions.at(row)), numbers);
  });
}

template <class T>
void add_norm_gradient_means(const HeadRows& with, MatrixView<const T> u, MatrixView<const T> grad,
                             std::span<double> means, int threads) {
  const HeadNorm& norm = *with.transform->norm;
  const double* const weights = of_head(norm.weights, with, u.cols);
  const auto channels = static_cast<double>(u.cols * (norm.all_heads ? with.heads : 1));
  for_panels(u.rows, threads, [&](Index first, Index count) {
    for (Index i = first; i < first + count; ++i) {
      const auto [mean, scale] = mean_and_scale(with, i, u.row(i), u.cols);
      double along = 0;
      double sum = 0;
      for (Index c = 0; c < u.cols; ++c) {
        const double upstream = weights[c] * static_cast<double>(grad(i, c));
        along += upstream * (static_cast<double>(u(i, c)) - mean) * scale;
        sum += upstream;
      }
      double* const to = means.data() + 4 * i;
      to[0] = mean;
      to[1] = scale;
      to[2] += along / channels;
      if (norm.centred) to[3] += sum / channels;
    }
  });
}

template <class T>
void norm_parameter_gradients(const HeadRows& with, MatrixView<const T> u, MatrixView<const T> grad,
                              std::span<const double> means, MatrixView<T> weights,
                              MatrixView<T> bias) {
  if (weights.data == nullptr && bias.data == nullptr) return;
  PooledVector<double> along(static_cast<std::size_t>(u.cols), 0.0);
  PooledVector<double> sum = along;
  for (Index i = 0; i < u.rows; ++i) {
    const double mean = means[static_cast<std::size_t>(4 * i)];
    const double scale = means[static_cast<std::size_t>(4 * i + 1)];
    for (Index c = 0; c < u.cols; ++c) {
      const auto n = static_cast<std::size_t>(c);
      const auto upstream = static_cast<double>(grad(i, c));
      along[n] += upstream * (static_cast<double>(u(i, c)) - mean) * scale;
      sum[n] += upstream;
    }
  }
  const auto write = [&](const PooledVector<double>& sums, const MatrixView<T>& all) {
    if (all.data == nullptr) return;
    std::transform(sums.begin(), sums.end(), of_head(all.data, all.cols, with, u.cols),
                   [](double number) { return static_cast<T>(number); });
  };
  write(along, weights);
  write(sum, bias);
}

template <class T>
void differentiate_norm(const HeadRows& with, MatrixView<const T> grad,
                        std::span<const double> means, MatrixView<T> u, int threads) {
  const double* const weights = of_head(with.transform->norm->weights, with, u.cols);
  for_rows(u, threads, [&](Index row, double* numbers) {
    const double* const of_row = means.data() + 4 * row;
    const double scale = of_row[1];
    for (Index c = 0; c < u.cols; ++c) {
      const double own = weights[c] * static_cast<double>(grad(row, c));
      const double standard = (numbers[c] - of_row[0]) * scale;
      numbers[c] = scale * (own - of_row[3] - standard * of_row[2]);
    }
  });
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template void add_moments(const HeadNorm&, Index, MatrixView<const T>, std::span<double>, int);  \
  template void transform_rows(const HeadRows&, MatrixView<T>, int,                                \
                               const std::function<std::string()>&);                               \
  template void rotate_back(const HeadRows&, MatrixView<T>, int);                                  \
  template void add_norm_gradient_means(const HeadRows&, MatrixView<const T>, MatrixView<const T>, \
                                        std::span<double>, int);                                   \
  template void norm_parameter_gradients(const HeadRows&, MatrixView<const T>,                     \
                                         MatrixView<const T>, std::span<const double>,             \
                                         MatrixView<T>, MatrixView<T>);                            \
  template void differentiate_norm(const HeadRows&, MatrixView<const T>, std::span<const double>,  \
                                   MatrixView<T>, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
