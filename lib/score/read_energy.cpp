#include "score/read_energy.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernel/packed.hpp"
#include "kernel/tile.hpp"
#include "score/row_blocks.hpp"
#include "score/tile_product.hpp"

namespace attn {
namespace {

template <class T>
using PackedKeys = RowBlocks<T, kernel::Packed<T>, RowRole::keys>;

template <class T>
class ReadDotEnergy final : public Energy<T> {
 public:
  ReadDotEnergy(MatrixView<const T> q, const RowSource<T>& keys, double scale)
      : q_(q), keys_(keys), scale_(static_cast<T>(scale)) {
    if (q.rows > 0 && !kernel::worth_packing(q.rows)) {
      throw std::logic_error("keys are read for at least 16 queries");
    }
    double largest_key = 0;
    if (q.rows == 0) return;
    for_all_rows(keys, [&](MatrixView<const T> rows) {
      largest_key = std::max(largest_key, static_cast<double>(kernel::largest_norm(rows)));
    });
    norms_ = kernel::largest_norm(q) * largest_key;
  }

  Index rows() const override { return q_.rows; }
  Index cols() const override { return keys_.source().rows(); }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    with_keys(range, [&](const kernel::Packed<T>& keys, Index at) {
      multiply_any_packed(scale_, queries(range), keys, at, out);
    });
  }

  bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                         double* col_sum, double* row_product) const override {
    if (range.col0 % kernel::packed_width<T>() != 0) return false;
    with_keys(range, [&](const kernel::Packed<T>& keys, Index at) {
      kernel::multiply_exp_packed(scale_, queries(range), keys, at, out, row_sum, col_sum,
                                  row_product);
    });
    return true;
  }

  double bound() const override { return norms_ * std::max(1.0, size_of_scale()); }
  double magnitude() const override { return norms_ * size_of_scale(); }
  bool same_in_any_range() const override { return true; }

 private:
  double size_of_scale() const { return std::abs(static_cast<double>(scale_)); }
  MatrixView<const T> queries(const TileRange& range) const {
    return q_.row_range(range.row0, range.rows);
  }

  // Calls body(packed keys, which of them is the first of the range).
  template <class Body>
  void with_keys(const TileRange& range, const Body& body) const {
    keys_.with_rows(
        range.col0, range.cols,
        [](MatrixView<const T> rows) { return kernel::Packed<T>::of_transposed(rows); }, body);
  }

  MatrixView<const T> q_;
  PackedKeys<T> keys_;
  T scale_;
  double norms_ = 0;
};

}  // namespace

template <class T>
std::unique_ptr<Energy<T>> make_read_energy(EnergyKind kind, MatrixView<const T> q,
                                            const RowSource<T>& keys, double scale) {
  switch (kind) {
    case EnergyKind::dot:
      return std::make_unique<ReadDotEnergy<T>>(q, keys, scale);
    case EnergyKind::scaled_dot:
      return std::make_unique<ReadDotEnergy<T>>(
          q, keys, scale / std::sqrt(static_cast<double>(keys.cols())));
    case EnergyKind::gaussian:
      break;
  }
  throw std::logic_error("only products of q and k read their keys");
}

std::int64_t read_energy_bytes(Index keys, Index depth, std::size_t element_size) {
  return (element_size == sizeof(double) ? PackedKeys<double>::bytes : PackedKeys<float>::bytes)(
      keys, depth);
}

template std::unique_ptr<Energy<float>> make_read_energy(EnergyKind, MatrixView<const float>,
                                                         const RowSource<float>&, double);
template std::unique_ptr<Energy<double>> make_read_energy(EnergyKind, MatrixView<const double>,
                                                          const RowSource<double>&, double);

}  // namespace attn
