#include "gradient/energy_gradient.hpp"

#include <cmath>

#include "gradient/pair_sums.hpp"
#include "kernel/gradient.hpp"
#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "score/centred_pair.hpp"
#include "score/panel_product.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

template <class T>
void multiply_by(MatrixView<T> matrix, double scale) {
  if (matrix.data == nullptr) return;
  for (Index i = 0; i < matrix.rows; ++i) kernel::scale_row(matrix.row(i), matrix.cols, scale);
}

template <class T>
class DotGradient final : public PairSink<T> {
 public:
  DotGradient(MatrixView<const T> q, MatrixView<const T> k, double scale, MatrixView<T> grad_q,
              MatrixView<T> grad_k)
      : sums_(q, k, grad_q, grad_k), scale_(scale), grad_q_(grad_q), grad_k_(grad_k) {}

  void finish() override {
    multiply_by(grad_q_, scale_);
    multiply_by(grad_k_, scale_);
  }

 private:
  PairSums<T>& sums() override { return sums_; }

  PairSums<T> sums_;
  double scale_;
  MatrixView<T> grad_q_;
  MatrixView<T> grad_k_;
};

template <class T>
class GaussianGradient final : public GradientSink<T> {
 public:
  GaussianGradient(MatrixView<const T> q, MatrixView<const T> k, double scale, MatrixView<T> grad_q,
                   MatrixView<T> grad_k)
      : centred_(q, k),
        sums_(centred_.q(), centred_.k(), grad_q, grad_k),
        scale_(scale),
        grad_q_(grad_q),
        grad_k_(grad_k),
        row_(static_cast<std::size_t>(q.rows)),
        col_(static_cast<std::size_t>(k.rows)) {}

  void start(Index lanes) override {
    sums_.start(lanes);
    lanes_ = LaneSums<double>(static_cast<Index>(row_.size()), lanes);
    std::fill(row_.begin(), row_.end(), 0.0);
    std::fill(col_.begin(), col_.end(), 0.0);
  }

  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) override {
    sums_.add(range, gradient, lane);
    double* row = lanes_.lane(lane) + range.row0;
    for (Index i = 0; i < range.rows; ++i) {
      row[i] += kernel::dot_row(gradient.row(i), nullptr, range.cols);
    }
    kernel::add_columns(gradient, col_.data() + range.col0);
  }

  void merge(Index lane, SumPart part) override {
    sums_.merge(lane, part);
    lanes_.merge(lane, row_.data(), part);
  }
  bool can_share() const override { return true; }
  void visit_totals(const RankShare::Visit& visit) override {
    sums_.visit_totals(visit);
    visit(std::as_writable_bytes(std::span<double>(row_)));
  }
  void share(const SlotShare& share) override {
    sums_.share(share);
    share.complete_lines(std::span<double>(col_));
  }

  void finish() override {
    subtract(centred_.q(), row_, grad_q_);
    subtract(centred_.k(), col_, grad_k_);
  }

 private:
  // scale·(sum of the others' vectors − total·own vector).
  void subtract(MatrixView<const T> vectors, const PooledVector<double>& total,
                MatrixView<T> gradient) const {
    if (gradient.data == nullptr) return;
    for (Index i = 0; i < vectors.rows; ++i) {
      for (Index c = 0; c < vectors.cols; ++c) {
        const double others = static_cast<double>(gradient(i, c));
        const double own = total[static_cast<std::size_t>(i)] * static_cast<double>(vectors(i, c));
        gradient(i, c) = static_cast<T>(scale_ * (others - own));
      }
    }
  }

  CentredPair<T> centred_;
  PairSums<T> sums_;
  double scale_;
  MatrixView<T> grad_q_;
  MatrixView<T> grad_k_;
  LaneSums<double> lanes_;
  PooledVector<double> row_;  // Σ_j dE_ij
  PooledVector<double> col_;  // Σ_i dE_ij
};

template <class T>
class BilinearGradient final : public PairSink<T> {
 public:
  BilinearGradient(MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> w,
                   double scale, MatrixView<T> grad_q, MatrixView<T> grad_k, MatrixView<T> grad_w,
                   int threads)
      : q_(q),
        w_(w),
        scale_(scale),
        grad_q_(grad_q),
        grad_k_(grad_k),
        grad_w_(grad_w),
        threads_(threads),
        by_query_storage_(grad_q.data == nullptr && grad_w.data == nullptr ? 0 : q.rows * k.cols),
        by_key_storage_(grad_k.data == nullptr ? 0 : k.rows * q.cols),
        by_query_(data_or_null(by_query_storage_), q.rows, k.cols),
        by_key_(data_or_null(by_key_storage_), k.rows, q.cols),
        sums_(q, k, by_query_, by_key_) {}

  void finish() override {
    if (grad_q_.data != nullptr) {
      multiply_transposed_by_panels<T>(by_query_, w_, grad_q_, threads_);
      multiply_by(grad_q_, scale_);
    }
    if (grad_k_.data != nullptr) {
      for (Index j = 0; j < grad_k_.rows; ++j) std::fill_n(grad_k_.row(j), grad_k_.cols, T{0});
      multiply_add_by_panels<T>(by_key_, w_, grad_k_, threads_);
      multiply_by(grad_k_, scale_);
    }
    if (grad_w_.data != nullptr) {
      for (Index c = 0; c < grad_w_.rows; ++c) std::fill_n(grad_w_.row(c), grad_w_.cols, T{0});
      kernel::add_transposed_product(q_, by_query_, grad_w_);
      multiply_by(grad_w_, scale_);
    }
  }

 private:
  PairSums<T>& sums() override { return sums_; }
  static T* data_or_null(const Buffer<T>& buffer) {
    return buffer.size() == 0 ? nullptr : buffer.data();
  }

  MatrixView<const T> q_;
  MatrixView<const T> w_;
  double scale_;
  MatrixView<T> grad_q_;
  MatrixView<T> grad_k_;
  MatrixView<T> grad_w_;
  int threads_;
  Buffer<T> by_query_storage_;
  Buffer<T> by_key_storage_;
  MatrixView<T> by_query_;
  MatrixView<T> by_key_;
  PairSums<T> sums_;
};

}  // namespace

template <class T>
std::unique_ptr<GradientSink<T>> make_product_gradient(EnergyKind kind, MatrixView<const T> q,
                                                       MatrixView<const T> k, double scale,
                                                       MatrixView<T> grad_q, MatrixView<T> grad_k) {
  switch (kind) {
    case EnergyKind::dot:
      return std::make_unique<DotGradient<T>>(q, k, scale, grad_q, grad_k);
    case EnergyKind::scaled_dot:
      return std::make_unique<DotGradient<T>>(q, k, scale / std::sqrt(static_cast<double>(q.cols)),
                                              grad_q, grad_k);
    case EnergyKind::gaussian:
      return std::make_unique<GaussianGradient<T>>(q, k, scale, grad_q, grad_k);
  }
  return nullptr;
}

std::int64_t product_gradient_bytes(EnergyKind kind, Index rows, Index cols, Index depth,
                                    std::size_t element_size, Index lanes) {
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes = lanes * rows * depth * element +
                       kernel::packed_bytes(cols, depth, element_size) +
                       kernel::packed_bytes(rows, depth, element_size);
  if (kind == EnergyKind::gaussian) {
    bytes += (rows + cols) * depth * element +
             ((lanes + 1) * rows + cols) * static_cast<std::int64_t>(sizeof(double));
  }
  return bytes;
}

template <class T>
std::unique_ptr<GradientSink<T>> make_bilinear_gradient(MatrixView<const T> q,
                                                        MatrixView<const T> k,
                                                        MatrixView<const T> w, double scale,
                                                        MatrixView<T> grad_q, MatrixView<T> grad_k,
                                                        MatrixView<T> grad_w, int threads) {
  return std::make_unique<BilinearGradient<T>>(q, k, w, scale, grad_q, grad_k, grad_w, threads);
}

std::int64_t bilinear_gradient_bytes(Index rows, Index cols, Index q_depth, Index k_depth,
                                     std::size_t element_size, Index lanes) {
  return ((lanes + 1) * rows * k_depth + cols * q_depth) * static_cast<std::int64_t>(element_size) +
         kernel::packed_bytes(cols, k_depth, element_size) +
         kernel::packed_bytes(rows, q_depth, element_size);
}

#define ATTN_FOR_TYPE(T)                                                                           \
  template std::unique_ptr<GradientSink<T>> make_product_gradient(                                 \
      EnergyKind, MatrixView<const T>, MatrixView<const T>, double, MatrixView<T>, MatrixView<T>); \
  template std::unique_ptr<GradientSink<T>> make_bilinear_gradient(                                \
      MatrixView<const T>, MatrixView<const T>, MatrixView<const T>, double, MatrixView<T>,        \
      MatrixView<T>, MatrixView<T>, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
