// cosine: cos(q, k) − 1 is the gaussian energy −|u − v|²/2 of u = q/|q| and v = k/|k|.

#include <algorithm>
#include <cmath>
#include <limits>

#include "energy/table.hpp"
#include "energy/typed_energy.hpp"
#include "gradient/energy_gradient.hpp"
#include "tensor/buffer.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// Vectors divided by their lengths; a vector of zeros stays 0.
template <class T>
class UnitVectors {
 public:
  explicit UnitVectors(MatrixView<const T> vectors) : storage_(vectors.rows * vectors.cols) {
    units_ = {storage_.data(), vectors.rows, vectors.cols};
    for (Index i = 0; i < vectors.rows; ++i) {
      double length = 0;
      for (Index c = 0; c < vectors.cols; ++c) {
        length = std::hypot(length, static_cast<double>(vectors(i, c)));
      }
      if (length == 0) zeros_.push_back(i);
      for (Index c = 0; c < vectors.cols; ++c) {
        units_(i, c) =
            length == 0 ? T{0} : static_cast<T>(static_cast<double>(vectors(i, c)) / length);
      }
      lengths_.push_back(length);
    }
  }

  MatrixView<const T> units() const { return units_; }
  const PooledVector<Index>& zeros() const { return zeros_; }

  // The derivatives by the vectors, from those by the units: these without their part along u,
  // divided by the length; 0 for a vector of zeros.
  void write_gradient(MatrixView<const T> by_unit, MatrixView<T> to) const {
    for (Index i = 0; i < to.rows; ++i) {
      double along = 0;
      for (Index c = 0; c < to.cols; ++c) {
        along += static_cast<double>(units_(i, c)) * static_cast<double>(by_unit(i, c));
      }
      for (Index c = 0; c < to.cols; ++c) {
        const double across =
            static_cast<double>(by_unit(i, c)) - along * static_cast<double>(units_(i, c));
        const double length = lengths_[static_cast<std::size_t>(i)];
        to(i, c) = length == 0 ? T{0} : static_cast<T>(across / length);
      }
    }
  }

 private:
  Buffer<T> storage_;
  MatrixView<T> units_;
  PooledVector<double> lengths_;
  PooledVector<Index> zeros_;
};

template <class T>
struct UnitPair {
  UnitVectors<T> q, k;

  UnitPair(MatrixView<const T> q_vectors, MatrixView<const T> k_vectors)
      : q(q_vectors), k(k_vectors) {}
};

template <class T>
class CosineEnergy final : public Energy<T> {
 public:
  explicit CosineEnergy(const EnergyArguments<T>& given)
      : units_(given.q, given.k),
        gaussian_(make_product_energy<T>(EnergyKind::gaussian, units_.q.units(), units_.k.units(),
                                         given.scale)),
        undefined_{units_.q.zeros(), units_.k.zeros(), "is 0, which has no cosine"},
        all_defined_(undefined_.rows.empty() && undefined_.cols.empty()) {}

  Index rows() const override { return gaussian_->rows(); }
  Index cols() const override { return gaussian_->cols(); }
  void fill(const TileRange& range, MatrixView<T> out) const override {
    gaussian_->fill(range, out);
    for_each_in(undefined_.rows, range.row0, range.rows,
                [&](Index i) { std::fill_n(out.row(i), range.cols, forbidden); });
    for_each_in(undefined_.cols, range.col0, range.cols, [&](Index j) {
      for (Index i = 0; i < range.rows; ++i) out(i, j) = forbidden;
    });
  }
  bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                         double* col_sum, double* row_product) const override {
    return all_defined_ && gaussian_->fill_exponentials(range, out, row_sum, col_sum, row_product);
  }
  // Unknown with forbidden pairs, so that Scores looks at each number.
  double bound() const override { return all_defined_ ? gaussian_->bound() : infinity; }
  double magnitude() const override { return all_defined_ ? gaussian_->magnitude() : infinity; }
  bool bound_is_expensive() const override { return gaussian_->bound_is_expensive(); }
  bool may_forbid() const override { return !all_defined_; }
  bool same_in_any_range() const override { return gaussian_->same_in_any_range(); }
  const UndefinedLines* undefined() const override { return all_defined_ ? nullptr : &undefined_; }

 private:
  static constexpr T forbidden = -std::numeric_limits<T>::infinity();

  // Calls use(n − first) for the lines n of a range.
  template <class Use>
  static void for_each_in(const PooledVector<Index>& lines, Index first, Index count,
                          const Use& use) {
    auto line = std::lower_bound(lines.begin(), lines.end(), first);
    for (; line != lines.end() && *line < first + count; ++line) use(*line - first);
  }

  UnitPair<T> units_;
  std::unique_ptr<Energy<T>> gaussian_;
  UndefinedLines undefined_;
  bool all_defined_;
};

template <class T>
class CosineGradient final : public GradientSink<T> {
 public:
  CosineGradient(const EnergyArguments<T>& given, const EnergyGradients<T>& wanted)
      : units_(given.q, given.k),
        wanted_(wanted),
        by_q_storage_(wanted.q.data == nullptr ? 0 : given.q.rows * given.q.cols),
        by_k_storage_(wanted.k.data == nullptr ? 0 : given.k.rows * given.k.cols),
        by_q_(wanted.q.data == nullptr ? nullptr : by_q_storage_.data(), given.q.rows,
              given.q.cols),
        by_k_(wanted.k.data == nullptr ? nullptr : by_k_storage_.data(), given.k.rows,
              given.k.cols),
        gaussian_(make_product_gradient<T>(EnergyKind::gaussian, units_.q.units(), units_.k.units(),
                                           given.scale, by_q_, by_k_)) {}

  void start(Index lanes) override { gaussian_->start(lanes); }
  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) override {
    gaussian_->add(range, gradient, lane);
  }
  void merge(Index lane, SumPart part) override { gaussian_->merge(lane, part); }
  bool can_share() const override { return gaussian_->can_share(); }
  void visit_totals(const RankShare::Visit& visit) override { gaussian_->visit_totals(visit); }
  void share(const SlotShare& share) override { gaussian_->share(share); }

  void finish() override {
    gaussian_->finish();
    if (by_q_.data != nullptr) units_.q.write_gradient(by_q_, wanted_.q);
    if (by_k_.data != nullptr) units_.k.write_gradient(by_k_, wanted_.k);
  }

 private:
  UnitPair<T> units_;
  EnergyGradients<T> wanted_;
  Buffer<T> by_q_storage_, by_k_storage_;
  MatrixView<T> by_q_, by_k_;
  std::unique_ptr<GradientSink<T>> gaussian_;
};

class CosineDescription final : public TypedEnergy<CosineDescription> {
 public:
  std::string_view name() const override { return "cosine"; }
  std::string_view formula() const override { return "<q,k>/(|q||k|)-1"; }
  const std::vector<EnergyOperand>& operands() const override { return none_; }
  bool needs_equal_depths() const override { return true; }
  double cost_scale() const override { return 1; }

  template <class T>
  std::unique_ptr<Energy<T>> make_of(const EnergyArguments<T>& given) const {
    return std::make_unique<CosineEnergy<T>>(given);
  }
  template <class T>
  std::unique_ptr<GradientSink<T>> differentiate_of(const EnergyArguments<T>& given,
                                                    const EnergyGradients<T>& wanted) const {
    return std::make_unique<CosineGradient<T>>(given, wanted);
  }

  std::int64_t bytes(const EnergySizes& sizes, std::size_t element_size) const override {
    return unit_bytes(sizes, element_size) + product_energy_bytes(EnergyKind::gaussian,
                                                                  sizes.queries, sizes.keys,
                                                                  sizes.q_depth, element_size);
  }
  std::int64_t gradient_bytes(const EnergySizes& sizes, std::size_t element_size,
                              Index lanes) const override {
    return 2 * unit_bytes(sizes, element_size) +
           product_gradient_bytes(EnergyKind::gaussian, sizes.queries, sizes.keys, sizes.q_depth,
                                  element_size, lanes);
  }
  EnergyFlops flops(const EnergySizes& sizes) const override {
    return {0, 2 * static_cast<double>(sizes.q_depth)};
  }

 private:
  static std::int64_t unit_bytes(const EnergySizes& sizes, std::size_t element_size) {
    // A length, and the numbers of vectors of zeros, which are held twice; twice, since lists grow
    // one element at a time.
    return (sizes.queries + sizes.keys) *
           (sizes.q_depth * static_cast<std::int64_t>(element_size) +
            2 * static_cast<std::int64_t>(sizeof(double) + 2 * sizeof(Index)));
  }

  std::vector<EnergyOperand> none_;
};

}  // namespace

const EnergyDescription& cosine_energy() {
  static const CosineDescription energy;
  return energy;
}

}  // namespace attn
