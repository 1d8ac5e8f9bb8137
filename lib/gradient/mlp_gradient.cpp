#include <algorithm>
#include <cmath>

#include "gradient/energy_gradient.hpp"
#include "kernel/gradient.hpp"
#include "kernel/product.hpp"
#include "score/mlp_arguments.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// The sums of da by query and by key. All gradients except dw2 are linear in them, and follow by
// products after the last tile.
template <class T>
class MlpGradient final : public GradientSink<T> {
 public:
  MlpGradient(MatrixView<const T> q, MatrixView<const T> k, const MlpWeights<T>& weights,
              double scale, const MlpGradients<T>& gradients, int threads)
      : q_(q),
        k_(k),
        scale_(scale),
        gradients_(gradients),
        threads_(threads),
        hidden_(weights.w1.rows),
        for_q_(weights.w1.data, hidden_, q.cols, weights.w1.row_stride),
        for_k_(weights.w1.data + q.cols, hidden_, k.cols, weights.w1.row_stride),
        arguments_(mlp_arguments(q, k, weights, threads)),
        by_query_storage_(q.rows * hidden_),
        by_key_storage_(k.rows * hidden_),
        by_query_(by_query_storage_.data(), q.rows, hidden_),
        by_key_(by_key_storage_.data(), hidden_, k.rows),
        w2_sum_(static_cast<std::size_t>(hidden_)) {
    for (const T w : weights.w2) w2_.push_back(static_cast<T>(scale * static_cast<double>(w)));
  }

  void start(Index lanes) override {
    lanes_ = LaneSums<T>(by_query_storage_.size(), lanes);
    w2_lanes_ = LaneSums<double>(hidden_, lanes);
    std::fill(by_query_storage_.begin(), by_query_storage_.end(), T{0});
    std::fill(by_key_storage_.begin(), by_key_storage_.end(), T{0});
    std::fill(w2_sum_.begin(), w2_sum_.end(), 0.0);
  }

  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) override {
    const auto columns = [&](auto matrix) {
      matrix.data += range.col0;
      matrix.cols = range.cols;
      return matrix;
    };
    const MatrixView<T> by_query(lanes_.lane(lane), by_query_.rows, hidden_);
    kernel::add_tanh_gradient(arguments_.q().row_range(range.row0, range.rows),
                              columns(arguments_.k()), w2_.data(), gradient,
                              by_query.row_range(range.row0, range.rows), columns(by_key_),
                              w2_lanes_.lane(lane));
  }

  void merge(Index lane, SumPart part) override {
    lanes_.merge(lane, by_query_storage_.data(), part);
    w2_lanes_.merge(lane, w2_sum_.data(), part);
  }
  bool can_share() const override { return true; }
  void visit_totals(const RankShare::Visit& visit) override {
    visit(std::as_writable_bytes(
        std::span(by_query_storage_.data(), static_cast<std::size_t>(by_query_storage_.size()))));
    visit(std::as_writable_bytes(std::span<double>(w2_sum_)));
  }
  // Keys are columns here.
  void share(const SlotShare& share) override {
    for (Index a = 0; a < hidden_; ++a) {
      share.complete_lines(std::span(by_key_.row(a), static_cast<std::size_t>(by_key_.cols)));
    }
  }

  void finish() override {
    if (gradients_.q.data != nullptr) {
      set_to_zero(gradients_.q);
      multiply_add_by_panels<T>(by_query_, for_q_, gradients_.q, threads_);
    }
    if (gradients_.k.data != nullptr) {
      set_to_zero(gradients_.k);
      for_panels(k_.rows, threads_, [&](Index first, Index count) {
        const MatrixView<const T> keys(by_key_.data + first, hidden_, count, by_key_.row_stride);
        kernel::add_transposed_product(keys, for_k_, gradients_.k.row_range(first, count));
      });
    }
    if (gradients_.w1.data != nullptr) {
      const MatrixView<T>& w1 = gradients_.w1;
      set_to_zero(w1);
      kernel::add_transposed_product(by_query_, q_, {w1.data, hidden_, q_.cols, w1.row_stride});
      kernel::multiply_add(by_key_, k_, {w1.data + q_.cols, hidden_, k_.cols, w1.row_stride});
    }
    for (std::size_t a = 0; a < gradients_.w2.size(); ++a) {
      gradients_.w2[a] = static_cast<T>(scale_ * w2_sum_[a]);
    }
    for (std::size_t a = 0; a < gradients_.bias.size(); ++a) {
      double sum = 0;
      for (Index i = 0; i < by_query_.rows; ++i) {
        sum += static_cast<double>(by_query_(i, static_cast<Index>(a)));
      }
      gradients_.bias[a] = static_cast<T>(sum);
    }
  }

 private:
  MatrixView<const T> q_;
  MatrixView<const T> k_;
  double scale_;
  MlpGradients<T> gradients_;
  int threads_;
  Index hidden_;
  MatrixView<const T> for_q_;
  MatrixView<const T> for_k_;
  MlpArguments<T> arguments_;
  Buffer<T> by_query_storage_;
  Buffer<T> by_key_storage_;
  MatrixView<T> by_query_;  // Σ_j da_ij (Lq, A)
  MatrixView<T> by_key_;    // Σ_i da_ij (A, Lk)
  PooledVector<double> w2_sum_;
  PooledVector<T> w2_;  // scale included
  LaneSums<T> lanes_;
  LaneSums<double> w2_lanes_;
};

}  // namespace

template <class T>
std::unique_ptr<GradientSink<T>> make_mlp_gradient(MatrixView<const T> q, MatrixView<const T> k,
                                                   const MlpWeights<T>& weights, double scale,
                                                   const MlpGradients<T>& gradients, int threads) {
  return std::make_unique<MlpGradient<T>>(q, k, weights, scale, gradients, threads);
}

std::int64_t mlp_gradient_bytes(Index rows, Index cols, Index hidden, std::size_t element_size,
                                Index lanes) {
  return mlp_energy_bytes(rows, cols, hidden, element_size) +
         hidden * (((lanes + 1) * rows + cols) * static_cast<std::int64_t>(element_size) +
                   (lanes + 1) * static_cast<std::int64_t>(sizeof(double)));
}

template std::unique_ptr<GradientSink<float>> make_mlp_gradient(MatrixView<const float>,
                                                                MatrixView<const float>,
                                                                const MlpWeights<float>&, double,
                                                                const MlpGradients<float>&, int);
template std::unique_ptr<GradientSink<double>> make_mlp_gradient(MatrixView<const double>,
                                                                 MatrixView<const double>,
                                                                 const MlpWeights<double>&, double,
                                                                 const MlpGradients<double>&, int);

}  // namespace attn
