#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "score/scores.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// s_ij + log a_i + log b_j of given scores as an energy, without the logarithm of a mass of 0:
/// with these scores the entropy of a plan is relative to the product of the masses a and b. The
/// scores must outlive the energy.
template <class T>
class RelativeEnergy final : public Energy<T> {
 public:
  RelativeEnergy(const Scores<T>& scores, std::span<const double> a, std::span<const double> b)
      : scores_(scores), row_(logs(a)), col_(logs(b)) {}

  /// log a_i, or 0.
  double row(std::size_t i) const { return row_[i]; }
  double col(std::size_t j) const { return col_[j]; }

  Index rows() const override { return scores_.rows(); }
  Index cols() const override { return scores_.cols(); }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    typename Scores<T>::Scratch scratch;
    scores_.fill(range, out, scratch);
    for (Index i = 0; i < out.rows; ++i) {
      const double of_row = row_[static_cast<std::size_t>(range.row0 + i)];
      for (Index j = 0; j < out.cols; ++j) {
        T& score = out.row(i)[j];
        score = static_cast<T>(static_cast<double>(score) + of_row +
                               col_[static_cast<std::size_t>(range.col0 + j)]);
      }
    }
  }
  double bound() const override { return scores_.magnitude() + largest(row_) + largest(col_); }
  bool may_forbid() const override { return true; }

 private:
  static PooledVector<double> logs(std::span<const double> masses) {
    PooledVector<double> values;
    for (const double mass : masses) values.push_back(mass > 0 ? std::log(mass) : 0);
    return values;
  }
  static double largest(const PooledVector<double>& values) {
    double most = 0;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
  }

  const Scores<T>& scores_;
  PooledVector<double> row_, col_;
};

}  // namespace attn
