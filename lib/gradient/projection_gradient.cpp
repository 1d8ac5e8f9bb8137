#include "gradient/projection_gradient.hpp"

#include <algorithm>

#include "kernel/product.hpp"
#include "score/panel_product.hpp"
#include "score/projection.hpp"

namespace attn {

template <class T>
void differentiate_projection(MatrixView<const T> x, MatrixView<const T> w,
                              MatrixView<const T> grad_out, const ProjectionTargets<T>& targets,
                              int threads) {
  if (targets.input.data != nullptr) {
    add_product_transposed_by_panels<T>(grad_out, w, targets.input, threads);
  }
  if (targets.weights.data != nullptr) {
    const MatrixView<T>& weights = targets.weights;
    for (Index i = 0; i < weights.rows; ++i) std::fill_n(weights.row(i), weights.cols, T{0});
    kernel::add_transposed_product(x, grad_out, weights);
  }
  if (targets.bias.data == nullptr) return;
  for (Index c = 0; c < grad_out.cols; ++c) {
    double sum = 0;
    for (Index i = 0; i < grad_out.rows; ++i) sum += static_cast<double>(grad_out(i, c));
    targets.bias(0, c) = static_cast<T>(sum);
  }
}

namespace {

// The part of the targets that belongs to one of the heads.
template <class T>
ProjectionTargets<T> of_head(const ProjectionTargets<T>& all, Index head, Index rows, Index cols) {
  ProjectionTargets<T> own{all.input, {}, {}};
  if (all.weights.data != nullptr) own.weights = all.weights.row_range(head * rows, rows);
  if (all.bias.data != nullptr) own.bias = {all.bias.data + head * cols, 1, cols};
  return own;
}

}  // namespace

template <class T>
void differentiate_projected(const ProjectedFrom<T>& from, MatrixView<T> grad_out,
                             const ProjectionTargets<T>& targets, int threads) {
  const HeadRows& rows = from.rows;
  if (rows.transform != nullptr) rotate_back(rows, grad_out, threads);
  if (rows.transform == nullptr || !rows.transform->norm) {
    differentiate_projection<T>(from.input, from.weights, grad_out, targets, threads);
    return;
  }
  Buffer<T> storage(grad_out.rows * grad_out.cols);
  const MatrixView<T> u(storage.data(), grad_out.rows, grad_out.cols);
  const auto make = [&](MatrixView<const T> weights, MatrixView<const T> bias) {
    project<T>(from.input, weights, from.numbers_of(bias), u, threads,
               [] { return std::string(); });
  };
  Buffer<double> storage_of_means(4 * u.rows);
  const std::span<double> means(storage_of_means.data(), static_cast<std::size_t>(4 * u.rows));
  make(from.weights, from.bias);
  norm_gradient_means<T>(rows, u, grad_out, means, threads);
  if (!rows.transform->over_heads()) {
    differentiate_norm<T>(rows, grad_out, means, u, threads);
    differentiate_projection<T>(from.input, from.weights, u, targets, threads);
    return;
  }
  for (Index head = 0; head < rows.heads; ++head) {
    const auto n = static_cast<std::size_t>(head);
    const MatrixView<const T>& weights = from.all_weights[n];
    make(weights, from.all_bias.empty() ? MatrixView<const T>() : from.all_bias[n]);
    const bool is_own = head == rows.head;
    differentiate_norm<T>(rows, is_own ? MatrixView<const T>(grad_out) : MatrixView<const T>(),
                          means, u, threads);
    differentiate_projection<T>(from.input, weights, u,
                                of_head(targets, head, weights.rows, weights.cols), threads);
  }
}

std::int64_t differentiate_projected_bytes(Index rows, Index cols, std::size_t element_size) {
  return rows * (cols * static_cast<std::int64_t>(element_size) +
                 4 * static_cast<std::int64_t>(sizeof(double))) +
         2 * buffer_margin;
}

#define ATTN_FOR_TYPE(T)                                                                         \
  template void differentiate_projection(MatrixView<const T>, MatrixView<const T>,               \
                                         MatrixView<const T>, const ProjectionTargets<T>&, int); \
  template void differentiate_projected(const ProjectedFrom<T>&, MatrixView<T>,                  \
                                        const ProjectionTargets<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
