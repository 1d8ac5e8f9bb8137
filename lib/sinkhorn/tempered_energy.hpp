#pragma once

#include <algorithm>

#include "score/scores.hpp"

namespace attn {

/// temperature · s_ij of given scores as an energy, −inf where a pair is forbidden: the same
/// problem at another ε. The scores must outlive the energy.
template <class T>
class TemperedEnergy final : public Energy<T> {
 public:
  /// temperature > 0.
  TemperedEnergy(const Scores<T>& scores, double temperature)
      : scores_(scores), factor_(static_cast<T>(temperature)) {}

  Index rows() const override { return scores_.rows(); }
  Index cols() const override { return scores_.cols(); }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    typename Scores<T>::Scratch scratch;
    scores_.fill(range, out, scratch);
    for (Index i = 0; i < out.rows; ++i) {
      for (Index j = 0; j < out.cols; ++j) out.row(i)[j] *= factor_;
    }
  }
  double bound() const override {
    return scores_.magnitude() * std::max(1.0, static_cast<double>(factor_));
  }
  double magnitude() const override { return scores_.magnitude() * static_cast<double>(factor_); }
  bool may_forbid() const override { return true; }
  bool same_in_any_range() const override { return scores_.terms().energy->same_in_any_range(); }

 private:
  const Scores<T>& scores_;
  T factor_;
};

}  // namespace attn
