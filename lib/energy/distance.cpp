// euclidean and l1: distances of points, coordinate by coordinate. Unlike a matrix product, this
// loses no digits where points are near each other.

#include <algorithm>
#include <cmath>
#include <limits>

#include "energy/table.hpp"
#include "energy/typed_energy.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

enum class Norm { euclidean, l1 };

// The coordinates of keys, one row for each.
template <class T>
class Coordinates {
 public:
  explicit Coordinates(MatrixView<const T> keys) : storage_(keys.rows * keys.cols) {
    values_ = {storage_.data(), keys.cols, keys.rows};
    for (Index j = 0; j < keys.rows; ++j) {
      for (Index c = 0; c < keys.cols; ++c) values_(c, j) = keys(j, c);
    }
  }

  // One coordinate of the keys from `first` on.
  const T* of(Index coordinate, Index first) const { return values_.row(coordinate) + first; }

 private:
  Buffer<T> storage_;
  MatrixView<T> values_;
};

// The distances from x to the keys of a range. Differences are multiplied by `unit`, a power of
// two, before they are squared.
template <class T>
void find_distances(Norm norm, T unit, const T* x, const Coordinates<T>& keys, Index depth,
                    const TileRange& range, T* out) {
  std::fill_n(out, range.cols, T{0});
  for (Index c = 0; c < depth; ++c) {
    const T* const y = keys.of(c, range.col0);
    if (norm == Norm::l1) {
      for (Index j = 0; j < range.cols; ++j) out[j] += std::abs(x[c] - y[j]);
    } else {
      for (Index j = 0; j < range.cols; ++j) {
        const T away = (x[c] - y[j]) * unit;
        out[j] += away * away;
      }
    }
  }
  if (norm == Norm::l1) return;
  for (Index j = 0; j < range.cols; ++j) out[j] = std::sqrt(out[j]) / unit;
}

// No q_i and k_j are farther apart: both are within their own radius of the common mean.
template <class T>
double largest_distance(Norm norm, MatrixView<const T> q, MatrixView<const T> k) {
  PooledVector<double> mean(static_cast<std::size_t>(q.cols), 0.0);
  for (const MatrixView<const T>& points : {q, k}) {
    for (Index i = 0; i < points.rows; ++i) {
      for (Index c = 0; c < q.cols; ++c) {
        mean[static_cast<std::size_t>(c)] +=
            static_cast<double>(points(i, c)) / static_cast<double>(q.rows + k.rows);
      }
    }
  }
  double sum = 0;
  for (const MatrixView<const T>& points : {q, k}) {
    double radius = 0;
    for (Index i = 0; i < points.rows; ++i) {
      double length = 0;
      for (Index c = 0; c < q.cols; ++c) {
        const double x = static_cast<double>(points(i, c)) - mean[static_cast<std::size_t>(c)];
        length = norm == Norm::l1 ? length + std::abs(x) : std::hypot(length, x);
      }
      radius = std::max(radius, length);
    }
    sum += radius;
  }
  const double rounding =
      static_cast<double>(q.cols + 4) * static_cast<double>(std::numeric_limits<T>::epsilon());
  return sum * (1 + rounding);
}

// The unit in which no square of a distance up to `largest` leaves the range of T.
template <class T>
T unit_for(double largest) {
  if (!(largest > 0) || std::isinf(largest)) return 1;
  const int most = std::numeric_limits<T>::max_exponent - 2;
  return std::ldexp(T{1}, std::clamp(-std::ilogb(largest), -most, most));
}

template <class T>
class DistanceEnergy final : public Energy<T> {
 public:
  DistanceEnergy(Norm norm, MatrixView<const T> q, MatrixView<const T> k, double scale)
      : norm_(norm),
        q_(q),
        keys_(k),
        cols_(k.rows),
        factor_(static_cast<T>(-scale)),
        largest_(largest_distance(norm, q, k)),
        unit_(unit_for<T>(largest_)) {}

  Index rows() const override { return q_.rows; }
  Index cols() const override { return cols_; }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    for (Index i = 0; i < range.rows; ++i) {
      find_distances(norm_, unit_, q_.row(range.row0 + i), keys_, q_.cols, range, out.row(i));
      for (Index j = 0; j < range.cols; ++j) out.row(i)[j] *= factor_;
    }
  }

  double bound() const override { return std::max(magnitude(), largest_); }
  double magnitude() const override { return std::abs(static_cast<double>(factor_)) * largest_; }

 private:
  Norm norm_;
  MatrixView<const T> q_;
  Coordinates<T> keys_;
  Index cols_;
  T factor_;
  double largest_;
  T unit_;
};

// Sums of dE_ij n_ijc over j and over i, where n_ij is the derivative of the distance by q_i, and
// its negative by k_j.
template <class T>
class DistanceGradient final : public GradientSink<T> {
 public:
  DistanceGradient(Norm norm, const EnergyArguments<T>& given, const EnergyGradients<T>& wanted)
      : norm_(norm),
        unit_(unit_for<T>(largest_distance(norm, given.q, given.k))),
        q_(given.q),
        keys_(given.k),
        scale_(static_cast<T>(given.scale)),
        wanted_(wanted),
        by_query_(q_.rows * q_.cols),
        by_key_storage_(given.k.rows * q_.cols),
        by_key_(by_key_storage_.data(), q_.cols, given.k.rows) {}

  void start(Index lanes) override {
    lanes_ = LaneSums<T>(by_query_.size(), lanes);
    std::fill(by_query_.begin(), by_query_.end(), T{0});
    std::fill(by_key_storage_.begin(), by_key_storage_.end(), 0.0);
  }

  void add(const TileRange& range, MatrixView<const T> gradient, Index lane) override {
    const Index depth = q_.cols;
    T* const by_query = lanes_.lane(lane);
    Buffer<T> weights(range.cols);
    T* const weight = weights.data();
    for (Index i = 0; i < range.rows; ++i) {
      const T* const x = q_.row(range.row0 + i);
      const T* const by_energy = gradient.row(i);
      if (norm_ == Norm::euclidean) {
        find_distances(norm_, unit_, x, keys_, depth, range, weight);
        for (Index j = 0; j < range.cols; ++j) {
          weight[j] = weight[j] > 0 ? by_energy[j] / weight[j] : T{0};
        }
      }
      for (Index c = 0; c < depth; ++c) {
        const T* const y = keys_.of(c, range.col0);
        double* const by_key = by_key_.row(c) + range.col0;
        double sum = 0;
        for (Index j = 0; j < range.cols; ++j) {
          const T away = x[c] - y[j];
          const T term = norm_ == Norm::euclidean
                             ? weight[j] * away
                             : by_energy[j] * static_cast<T>((away > 0) - (away < 0));
          sum += static_cast<double>(term);
          by_key[j] += static_cast<double>(term);
        }
        by_query[(range.row0 + i) * depth + c] += static_cast<T>(sum);
      }
    }
  }

  void merge(Index lane, SumPart part) override { lanes_.merge(lane, by_query_.data(), part); }

  void finish() override {
    if (wanted_.q.data != nullptr) {
      std::transform(by_query_.begin(), by_query_.end(), wanted_.q.data,
                     [this](T sum) { return -scale_ * sum; });
    }
    if (wanted_.k.data == nullptr) return;
    for (Index j = 0; j < by_key_.cols; ++j) {
      for (Index c = 0; c < q_.cols; ++c) wanted_.k(j, c) = scale_ * static_cast<T>(by_key_(c, j));
    }
  }

 private:
  Norm norm_;
  T unit_;
  MatrixView<const T> q_;
  Coordinates<T> keys_;
  T scale_;
  EnergyGradients<T> wanted_;
  Buffer<T> by_query_;  // (Lq, d)
  // In float64: a running sum over all queries.
  Buffer<double> by_key_storage_;
  MatrixView<double> by_key_;  // (d, Lk)
  LaneSums<T> lanes_;
};

class DistanceDescription final : public TypedEnergy<DistanceDescription> {
 public:
  DistanceDescription(std::string_view name, std::string_view formula, Norm norm)
      : name_(name), formula_(formula), norm_(norm) {}

  std::string_view name() const override { return name_; }
  std::string_view formula() const override { return formula_; }
  const std::vector<EnergyOperand>& operands() const override { return none_; }
  bool needs_equal_depths() const override { return true; }
  double cost_scale() const override { return 1; }

  template <class T>
  std::unique_ptr<Energy<T>> make_of(const EnergyArguments<T>& given) const {
    return std::make_unique<DistanceEnergy<T>>(norm_, given.q, given.k, given.scale);
  }
  template <class T>
  std::unique_ptr<GradientSink<T>> differentiate_of(const EnergyArguments<T>& given,
                                                    const EnergyGradients<T>& wanted) const {
    return std::make_unique<DistanceGradient<T>>(norm_, given, wanted);
  }

  std::int64_t bytes(const EnergySizes& sizes, std::size_t element_size) const override {
    return (sizes.keys + 1) * sizes.q_depth * static_cast<std::int64_t>(element_size);
  }
  std::int64_t gradient_bytes(const EnergySizes& sizes, std::size_t element_size,
                              Index lanes) const override {
    const Index vectors = sizes.keys + (lanes + 1) * sizes.queries;
    return (vectors * sizes.q_depth + lanes * sizes.keys) *
               static_cast<std::int64_t>(element_size) +
           sizes.keys * sizes.q_depth * static_cast<std::int64_t>(sizeof(double));
  }
  EnergyFlops flops(const EnergySizes& sizes) const override {
    return {0, 3 * static_cast<double>(sizes.q_depth)};
  }

 private:
  std::string_view name_;
  std::string_view formula_;
  Norm norm_;
  std::vector<EnergyOperand> none_;
};

}  // namespace

const EnergyDescription& euclidean_energy() {
  static const DistanceDescription energy("euclidean", "-|q-k|", Norm::euclidean);
  return energy;
}

const EnergyDescription& l1_energy() {
  static const DistanceDescription energy("l1", "-sum|q-k|", Norm::l1);
  return energy;
}

}  // namespace attn
