#include "score/energy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "kernel/magnitudes.hpp"
#include "kernel/tile.hpp"
#include "score/centred_pair.hpp"
#include "score/tile_product.hpp"

namespace attn {
namespace {

template <class T>
class DotEnergy final : public Energy<T> {
 public:
  DotEnergy(MatrixView<const T> q, MatrixView<const T> k, double scale)
      : q_(q),
        k_(k),
        product_(q, k, static_cast<T>(scale)),
        scale_(std::abs(static_cast<double>(static_cast<T>(scale)))) {}

  Index rows() const override { return product_.rows(); }
  Index cols() const override { return product_.cols(); }
  void fill(const TileRange& range, MatrixView<T> out) const override { product_.fill(range, out); }
  bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                         double* col_sum, double* row_product) const override {
    return product_.fill_exponentials(range, out, row_sum, col_sum, row_product);
  }
  // By Cauchy-Schwarz, which also bounds the partial sums; products are scaled at the end.
  double bound() const override { return norms() * std::max(1.0, scale_); }
  double magnitude() const override { return norms() * scale_; }
  bool bound_is_expensive() const override { return !kernel::worth_packing(q_.rows); }
  bool same_in_any_range() const override { return kernel::worth_packing(q_.rows); }

 private:
  double norms() const {
    std::call_once(measuring_,
                   [this] { norms_ = kernel::largest_norm(q_) * kernel::largest_norm(k_); });
    return norms_;
  }

  MatrixView<const T> q_;
  MatrixView<const T> k_;
  TileProduct<T> product_;
  double scale_;  // rounded to T, where it may be infinite
  mutable std::once_flag measuring_;
  mutable double norms_ = 0;
};

// −½‖q−k‖² = ⟨q,k⟩ − ½‖q‖² − ½‖k‖², with q and k measured from their common mean.
template <class T>
class GaussianEnergy final : public Energy<T> {
 public:
  GaussianEnergy(MatrixView<const T> q, MatrixView<const T> k, double scale)
      : centred_(q, k),
        q_(centred_.q()),
        k_(centred_.k()),
        product_(q_, k_, static_cast<T>(scale)),
        scale_(static_cast<T>(scale)) {
    // The scale as rounded to T, so that both parts of the square use the same scale.
    q_term_ = half_norms(q_, static_cast<double>(scale_));
    k_term_ = half_norms(k_, static_cast<double>(scale_));
    const double norms = kernel::largest_norm(q_) + kernel::largest_norm(k_);
    bound_ = norms * norms * std::max(1.0, std::abs(static_cast<double>(scale_)));
  }

  Index rows() const override { return q_.rows; }
  Index cols() const override { return k_.rows; }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    product_.fill(range, out);
    kernel::add_outer(out, q_term_.data() + range.row0, k_term_.data() + range.col0);
  }

  double bound() const override { return bound_; }

 private:
  static PooledVector<double> half_norms(MatrixView<const T> rows, double scale) {
    PooledVector<double> terms(static_cast<std::size_t>(rows.rows));
    for (Index i = 0; i < rows.rows; ++i) {
      terms[static_cast<std::size_t>(i)] =
          -0.5 * scale * kernel::squared_norm(rows.row(i), rows.cols);
    }
    return terms;
  }

  CentredPair<T> centred_;
  MatrixView<const T> q_;
  MatrixView<const T> k_;
  TileProduct<T> product_;
  PooledVector<double> q_term_;
  PooledVector<double> k_term_;
  T scale_;
  double bound_ = 0;
};

template <class T>
class ZeroEnergy final : public Energy<T> {
 public:
  ZeroEnergy(Index rows, Index cols) : rows_(rows), cols_(cols) {}
  Index rows() const override { return rows_; }
  Index cols() const override { return cols_; }
  void fill(const TileRange&, MatrixView<T> out) const override {
    for (Index i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, T{0});
  }
  double bound() const override { return 0; }
  bool same_in_any_range() const override { return true; }

 private:
  Index rows_;
  Index cols_;
};

template <class T>
class StoredEnergy final : public Energy<T> {
 public:
  StoredEnergy(const MatrixSource<T>& scores, Index rows, Index cols, double scale, double divisor)
      : scores_(scores),
        rows_(rows),
        cols_(cols),
        scale_(static_cast<T>(scale)),
        divisor_(divisor) {}

  Index rows() const override { return rows_; }
  Index cols() const override { return cols_; }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    scores_.read(range, out);
    if (scale_ == T{1} && divisor_ == 1) return;
    if (divisor_ == 1) {
      scale_by(out, [scale = scale_](T score) { return score * scale; });
    } else {
      scale_by(out, [scale = scale_, divisor = divisor_](T score) {
        return static_cast<T>(static_cast<double>(score * scale) / divisor);
      });
    }
  }

  double bound() const override {
    const double scaled = scores_.bound() * std::max(1.0, std::abs(static_cast<double>(scale_)));
    return scaled * std::max(1.0, 1 / divisor_);
  }
  double magnitude() const override {
    return scores_.bound() * std::abs(static_cast<double>(scale_)) / divisor_;
  }
  bool may_forbid() const override { return true; }
  bool same_in_any_range() const override { return true; }

 private:
  // Branch-free, so that it is vectorised.
  template <class Scale>
  static void scale_by(MatrixView<T> out, const Scale& scale) {
    constexpr T forbidden = -std::numeric_limits<T>::infinity();
    constexpr T beyond = std::numeric_limits<T>::quiet_NaN();
    for (Index i = 0; i < out.rows; ++i) {
      T* row = out.row(i);
      for (Index j = 0; j < out.cols; ++j) {
        const T scaled = scale(row[j]);
        // A product beyond the format must not pass for a forbidden pair.
        const T known = scaled == forbidden ? beyond : scaled;
        row[j] = row[j] == forbidden ? forbidden : known;
      }
    }
  }

  const MatrixSource<T>& scores_;
  Index rows_;
  Index cols_;
  T scale_;
  double divisor_;
};

}  // namespace

template <class T>
std::unique_ptr<Energy<T>> make_product_energy(EnergyKind kind, MatrixView<const T> q,
                                               MatrixView<const T> k, double scale) {
  switch (kind) {
    case EnergyKind::dot:
      return std::make_unique<DotEnergy<T>>(q, k, scale);
    case EnergyKind::scaled_dot:
      return std::make_unique<DotEnergy<T>>(q, k, scale / std::sqrt(static_cast<double>(q.cols)));
    case EnergyKind::gaussian:
      return std::make_unique<GaussianEnergy<T>>(q, k, scale);
  }
  return nullptr;
}

std::int64_t product_energy_bytes(EnergyKind kind, Index rows, Index cols, Index depth,
                                  std::size_t element_size) {
  const std::int64_t product = tile_product_bytes(rows, cols, depth, element_size);
  if (kind != EnergyKind::gaussian) return product;
  const auto element = static_cast<std::int64_t>(element_size);
  return product + (rows + cols) * (depth * element + static_cast<std::int64_t>(sizeof(double)));
}

template <class T>
std::unique_ptr<Energy<T>> make_zero_energy(Index rows, Index cols) {
  return std::make_unique<ZeroEnergy<T>>(rows, cols);
}

template <class T>
std::unique_ptr<Energy<T>> make_stored_energy(const MatrixSource<T>& scores, Index rows, Index cols,
                                              double scale, double divisor) {
  return std::make_unique<StoredEnergy<T>>(scores, rows, cols, scale, divisor);
}

template std::unique_ptr<Energy<float>> make_product_energy(EnergyKind, MatrixView<const float>,
                                                            MatrixView<const float>, double);
template std::unique_ptr<Energy<double>> make_product_energy(EnergyKind, MatrixView<const double>,
                                                             MatrixView<const double>, double);
template std::unique_ptr<Energy<float>> make_zero_energy(Index, Index);
template std::unique_ptr<Energy<double>> make_zero_energy(Index, Index);
template std::unique_ptr<Energy<float>> make_stored_energy(const MatrixSource<float>&, Index, Index,
                                                           double, double);
template std::unique_ptr<Energy<double>> make_stored_energy(const MatrixSource<double>&, Index,
                                                            Index, double, double);

}  // namespace attn
