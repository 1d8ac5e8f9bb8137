#include "gradient/projection_gradient.hpp"

#include <algorithm>

#include "kernel/product.hpp"
#include "parallel/stop_flag.hpp"
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
  ProjectionTargets<T> own = all;
  if (all.weights.data != nullptr) own.weights = all.weights.row_range(head * rows, rows);
  if (all.bias.data != nullptr) own.bias = {all.bias.data + head * cols, 1, cols};
  return own;
}

// The rows of a head before its norm, which are made again, and the means of the norm's gradient.
template <class T>
class BeforeNorm {
 public:
  BeforeNorm(const ProjectedFrom<T>& from, int threads)
      : from_(from),
        threads_(threads),
        rows_(from.input.rows * from.weights.cols),
        means_(4 * from.input.rows),
        u_(rows_.data(), from.input.rows, from.weights.cols) {
    std::fill(means_.begin(), means_.end(), 0.0);
  }

  void make(MatrixView<const T> weights, MatrixView<const T> bias) const {
    project<T>(from_.input, weights, from_.numbers_of(bias), u_, threads_,
               [] { return std::string(); });
  }

  void add_means(const HeadRows& head, MatrixView<const T> grad,
                 const ProjectionTargets<T>& targets) const {
    add_norm_gradient_means<T>(head, u_, grad, means(), threads_);
    norm_parameter_gradients<T>(head, u_, grad, means(), targets.norm, targets.norm_bias);
  }

  void differentiate(const HeadRows& head, MatrixView<const T> grad, MatrixView<const T> weights,
                     const ProjectionTargets<T>& targets) const {
    differentiate_norm<T>(head, grad, means(), u_, threads_);
    differentiate_projection<T>(from_.input, weights, u_, targets, threads_);
  }

 private:
  std::span<double> means() const {
    return {means_.data(), static_cast<std::size_t>(means_.size())};
  }

  const ProjectedFrom<T>& from_;
  int threads_;
  Buffer<T> rows_;
  Buffer<double> means_;
  MatrixView<T> u_;
};

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
  const BeforeNorm<T> before(from, threads);
  before.make(from.weights, from.bias);
  before.add_means(rows, grad_out, targets);
  if (targets.of_projection()) before.differentiate(rows, grad_out, from.weights, targets);
}

template <class T>
void differentiate_over_heads(const ProjectedFrom<T>& from,
                              const std::vector<MatrixView<const T>>& grads,
                              const ProjectionTargets<T>& targets, int threads) {
  const BeforeNorm<T> before(from, threads);
  HeadRows head = from.rows;
  for (const bool has_means : {false, true}) {
    if (has_means && !targets.of_projection()) return;
    for (head.head = 0; head.head < head.heads; ++head.head) {
      stop_if_asked();
      const auto n = static_cast<std::size_t>(head.head);
      const MatrixView<const T>& weights = from.all_weights[n];
      before.make(weights, from.all_bias.empty() ? MatrixView<const T>() : from.all_bias[n]);
      if (!has_means) {
        before.add_means(head, grads[n], targets);
        continue;
      }
      before.differentiate(head, grads[n], weights,
                           of_head(targets, head.head, weights.rows, weights.cols));
    }
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
                                        const ProjectionTargets<T>&, int);                       \
  template void differentiate_over_heads(const ProjectedFrom<T>&,                                \
                                         const std::vector<MatrixView<const T>>&,                \
                                         const ProjectionTargets<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
