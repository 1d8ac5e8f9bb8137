#include "gradient/bias_gradient.hpp"

#include <algorithm>
#include <numeric>

#include "kernel/gradient.hpp"
#include "kernel/tile.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// (Lq, Lk): each element belongs to one column, and so to one lane.
template <class T>
class WholeBiasGradient final : public GradientSink<T> {
 public:
  explicit WholeBiasGradient(MatrixView<T> gradient) : gradient_(gradient) {
    set_to_zero(gradient_);
  }

  void start(Index) override {}
  void add(const TileRange& range, MatrixView<const T> gradient, Index) override {
    for (Index i = 0; i < range.rows; ++i) {
      const T* const from = gradient.row(i);
      T* const to = gradient_.row(range.row0 + i) + range.col0;
      for (Index j = 0; j < range.cols; ++j) to[j] += from[j];
    }
  }
  void merge(Index, SumPart) override {}

 private:
  MatrixView<T> gradient_;
};

// (1, Lk)
template <class T>
class KeyBiasGradient final : public GradientSink<T> {
 public:
  explicit KeyBiasGradient(MatrixView<T> gradient)
      : gradient_(gradient), sums_(static_cast<std::size_t>(gradient.cols), 0.0) {}

  void start(Index) override {}
  void add(const TileRange& range, MatrixView<const T> gradient, Index) override {
    kernel::add_columns(gradient, sums_.data() + range.col0);
  }
  void merge(Index, SumPart) override {}
  bool can_share() const override { return true; }
  void share(const SlotShare& share) override { share.complete_lines(std::span<double>(sums_)); }
  void finish() override {
    for (Index j = 0; j < gradient_.cols; ++j) {
      gradient_(0, j) = static_cast<T>(sums_[static_cast<std::size_t>(j)]);
    }
  }

 private:
  MatrixView<T> gradient_;
  PooledVector<double> sums_;
};

// (Lq, 1) and (1, 1)
template <class T>
class QueryBiasGradient final : public GradientSink<T> {
 public:
  QueryBiasGradient(Index rows, MatrixView<T> gradient)
      : rows_(rows), gradient_(gradient), sums_(static_cast<std::size_t>(rows), 0.0) {}

  void start(Index lanes) override { lanes_ = LaneSums<double>(rows_, lanes); }
  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) override {
    double* sums = lanes_.lane(lane) + range.row0;
    for (Index i = 0; i < range.rows; ++i) {
      sums[i] += kernel::dot_row(gradient.row(i), nullptr, range.cols);
    }
  }
  void merge(Index lane, SumPart part) override { lanes_.merge(lane, sums_.data(), part); }
  bool can_share() const override { return true; }
  void visit_totals(const RankShare::Visit& visit) override {
    visit(std::as_writable_bytes(std::span<double>(sums_)));
  }
  void finish() override {
    if (gradient_.rows == 1) {
      gradient_(0, 0) = static_cast<T>(std::accumulate(sums_.begin(), sums_.end(), 0.0));
      return;
    }
    for (Index i = 0; i < rows_; ++i) {
      gradient_(i, 0) = static_cast<T>(sums_[static_cast<std::size_t>(i)]);
    }
  }

 private:
  Index rows_;
  MatrixView<T> gradient_;
  LaneSums<double> lanes_;
  PooledVector<double> sums_;
};

// Sums by distance first, so that a pair costs one addition.
template <class T>
class T5Gradient final : public GradientSink<T> {
 public:
  T5Gradient(Index rows, Index cols, Index offset, const BucketRule& rule, MatrixView<T> gradient)
      : rows_(rows),
        lowest_(-(rows - 1) - offset),
        rule_(rule),
        gradient_(gradient),
        sums_(rows == 0 || cols == 0 ? 0 : static_cast<std::size_t>(rows + cols - 1)) {}

  void start(Index lanes) override {
    lanes_ = LaneSums<double>(static_cast<Index>(sums_.size()), lanes);
  }
  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) override {
    double* sums = lanes_.lane(lane);
    for (Index i = 0; i < range.rows; ++i) {
      const T* from = gradient.row(i);
      // As in RelativeBias: pair (i, j) is at j − i + Lq − 1.
      double* to = sums + (rows_ - 1 - (range.row0 + i)) + range.col0;
      for (Index j = 0; j < range.cols; ++j) to[j] += static_cast<double>(from[j]);
    }
  }
  void merge(Index lane, SumPart part) override { lanes_.merge(lane, sums_.data(), part); }
  bool can_share() const override { return true; }
  void visit_totals(const RankShare::Visit& visit) override {
    visit(std::as_writable_bytes(std::span<double>(sums_)));
  }
  void finish() override {
    PooledVector<double> buckets(static_cast<std::size_t>(rule_.buckets), 0.0);
    for (std::size_t n = 0; n < sums_.size(); ++n) {
      const Index bucket = t5_bucket(lowest_ + static_cast<Index>(n), rule_);
      buckets[static_cast<std::size_t>(bucket)] += sums_[n];
    }
    for (Index b = 0; b < rule_.buckets; ++b) {
      gradient_(b, 0) = static_cast<T>(buckets[static_cast<std::size_t>(b)]);
    }
  }

 private:
  Index rows_;
  Index lowest_;
  BucketRule rule_;
  MatrixView<T> gradient_;
  LaneSums<double> lanes_;
  PooledVector<double> sums_;
};

}  // namespace

template <class T>
std::unique_ptr<GradientSink<T>> make_bias_gradient(Index rows, Index cols,
                                                    MatrixView<T> gradient) {
  if (gradient.cols == 1 && cols != 1)
    return std::make_unique<QueryBiasGradient<T>>(rows, gradient);
  if (gradient.rows == 1 && rows != 1) return std::make_unique<KeyBiasGradient<T>>(gradient);
  return std::make_unique<WholeBiasGradient<T>>(gradient);
}

template <class T>
std::unique_ptr<GradientSink<T>> make_t5_gradient(Index rows, Index cols, Index offset,
                                                  const BucketRule& rule, MatrixView<T> gradient) {
  return std::make_unique<T5Gradient<T>>(rows, cols, offset, rule, gradient);
}

std::int64_t bias_gradient_bytes(Index rows, Index cols, Index lanes) {
  return ((lanes + 1) * rows + cols) * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t t5_gradient_bytes(Index rows, Index cols, Index lanes) {
  return (lanes + 1) * (rows + cols) * static_cast<std::int64_t>(sizeof(double));
}

#define ATTN_FOR_TYPE(T)                                                                     \
  template std::unique_ptr<GradientSink<T>> make_bias_gradient(Index, Index, MatrixView<T>); \
  template std::unique_ptr<GradientSink<T>> make_t5_gradient(Index, Index, Index,            \
                                                             const BucketRule&, MatrixView<T>);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
