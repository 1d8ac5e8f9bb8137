#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attnkit/error.hpp"
#include "kernel/product.hpp"
#include "score/energy.hpp"
#include "score/panel_product.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

// Whether q W (as wide as k) costs less than k Wᵀ (as wide as q), products of tiles included.
bool projects_queries(Index rows, Index cols, Index q_depth, Index k_depth) {
  const auto work = [&](Index projected, Index width) {
    return static_cast<double>(projected) * static_cast<double>(q_depth) *
               static_cast<double>(k_depth) +
           static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(width);
  };
  return work(rows, k_depth) <= work(cols, q_depth);
}

// The dot energy of one side as given and the other side projected.
template <class T>
class BilinearEnergy final : public Energy<T> {
 public:
  BilinearEnergy(MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> w, double scale,
                 int threads) {
    if (projects_queries(q.rows, k.rows, q.cols, k.cols)) {
      const auto projected = make_room(q.rows, w.cols);
      for_panels(q.rows, threads, [&](Index first, Index count) {
        const auto out = projected.row_range(first, count);
        for (Index i = 0; i < count; ++i) std::fill_n(out.row(i), out.cols, T{0});
        kernel::multiply_add(q.row_range(first, count), w, out);
      });
      dot_ = make_product_energy<T>(EnergyKind::dot, projected, k, scale);
    } else {
      const auto projected = make_room(k.rows, w.rows);
      multiply_transposed_by_panels<T>(k, w, projected, threads);
      dot_ = make_product_energy<T>(EnergyKind::dot, q, projected, scale);
    }
    finite_ =
        std::all_of(projected_.begin(), projected_.end(), [](T x) { return std::isfinite(x); });
  }

  Index rows() const override { return dot_->rows(); }
  Index cols() const override { return dot_->cols(); }
  void fill(const TileRange& range, MatrixView<T> out) const override { dot_->fill(range, out); }
  bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                         double* col_sum, double* row_product) const override {
    return dot_->fill_exponentials(range, out, row_sum, col_sum, row_product);
  }

  // The norms that bound the dot energy would not show a NaN.
  double bound() const override {
    return finite_ ? dot_->bound() : std::numeric_limits<double>::infinity();
  }
  double magnitude() const override {
    return finite_ ? dot_->magnitude() : std::numeric_limits<double>::infinity();
  }

 private:
  MatrixView<T> make_room(Index rows, Index cols) {
    projected_ = Buffer<T>(rows * cols);
    return MatrixView<T>(projected_.data(), rows, cols);
  }

  Buffer<T> projected_;
  std::unique_ptr<Energy<T>> dot_;
  bool finite_ = true;
};

}  // namespace

template <class T>
std::unique_ptr<Energy<T>> make_bilinear_energy(MatrixView<const T> q, MatrixView<const T> k,
                                                MatrixView<const T> w, double scale, int threads) {
  if (w.rows != q.cols || w.cols != k.cols) {
    throw Error(Failure::input, "w is " + to_string(Shape{w.rows, w.cols}) + ", expected " +
                                    to_string(Shape{q.cols, k.cols}) +
                                    " for the widths of q and k");
  }
  return std::make_unique<BilinearEnergy<T>>(q, k, w, scale, threads);
}

std::int64_t bilinear_energy_bytes(Index rows, Index cols, Index q_depth, Index k_depth,
                                   std::size_t element_size) {
  const bool queries = projects_queries(rows, cols, q_depth, k_depth);
  const Index elements = queries ? rows * k_depth : cols * q_depth;
  return elements * static_cast<std::int64_t>(element_size) +
         product_energy_bytes(EnergyKind::dot, rows, cols, queries ? k_depth : q_depth,
                              element_size);
}

template std::unique_ptr<Energy<float>> make_bilinear_energy(MatrixView<const float>,
                                                             MatrixView<const float>,
                                                             MatrixView<const float>, double, int);
template std::unique_ptr<Energy<double>> make_bilinear_energy(MatrixView<const double>,
                                                              MatrixView<const double>,
                                                              MatrixView<const double>, double,
                                                              int);

}  // namespace attn
