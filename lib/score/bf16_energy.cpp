#include <algorithm>
#include <cmath>
#include <sstream>

#include "attnkit/error.hpp"
#include "kernel/bf16.hpp"
#include "kernel/magnitudes.hpp"
#include "score/energy.hpp"
#include "tensor/buffer.hpp"

namespace attn {
namespace {

// The rows of a matrix in pairs.
Buffer<float> paired(const char* what, MatrixView<const float> rows) {
  const Index pairs = kernel::bf16_pairs(rows.cols);
  Buffer<float> all(rows.rows * pairs);
  for (Index i = 0; i < rows.rows; ++i) {
    const Index bad = kernel::first_not_bf16(rows.row(i), rows.cols);
    if (bad < rows.cols) {
      std::ostringstream message;
      message << what << ' ' << i << ": number " << bad << " is " << rows(i, bad)
              << ", expected a bfloat16 number";
      throw Error(Failure::input, message.str());
    }
    kernel::pair_bf16(rows.row(i), rows.cols, all.data() + i * pairs);
  }
  return all;
}

class Bf16Energy final : public Energy<float> {
 public:
  Bf16Energy(MatrixView<const float> q, MatrixView<const float> k, double scale)
      : rows_(q.rows),
        cols_(k.rows),
        pairs_(kernel::bf16_pairs(q.cols)),
        queries_(paired("query", q)),
        scale_(static_cast<float>(scale)),
        norms_(kernel::largest_norm(q) * kernel::largest_norm(k)) {
    const Buffer<float> keys = paired("key", k);
    keys_ = kernel::Packed<float>::of_transposed({keys.data(), cols_, pairs_});
  }

  Index rows() const override { return rows_; }
  Index cols() const override { return cols_; }

  void fill(const TileRange& range, MatrixView<float> out) const override {
    const Index width = kernel::packed_width<float>();
    const Index before = range.col0 % width;
    if (before == 0) return kernel::multiply_bf16(scale_, queries(range), keys_, range.col0, out);
    // Panels of few keys may begin inside a packed panel.
    Buffer<float> wide(range.rows * (before + range.cols));
    const MatrixView<float> whole(wide.data(), range.rows, before + range.cols);
    kernel::multiply_bf16(scale_, queries(range), keys_, range.col0 - before, whole);
    for (Index i = 0; i < range.rows; ++i) {
      std::copy_n(whole.row(i) + before, range.cols, out.row(i));
    }
  }

  bool fill_exponentials(const TileRange& range, MatrixView<float> out, double* row_sum,
                         double* col_sum, double* row_product) const override {
    if (range.col0 % kernel::packed_width<float>() != 0) return false;
    kernel::multiply_exp_bf16(scale_, queries(range), keys_, range.col0, out, row_sum, col_sum,
                              row_product);
    return true;
  }

  double bound() const override { return norms_ * std::max(1.0, magnitude_of_scale()); }
  double magnitude() const override { return norms_ * magnitude_of_scale(); }
  bool same_in_any_range() const override { return true; }

 private:
  double magnitude_of_scale() const { return std::abs(static_cast<double>(scale_)); }
  MatrixView<const float> queries(const TileRange& range) const {
    return {queries_.data() + range.row0 * pairs_, range.rows, pairs_};
  }

  Index rows_;
  Index cols_;
  Index pairs_;
  Buffer<float> queries_;
  kernel::Packed<float> keys_;
  float scale_;
  double norms_;
};

}  // namespace

std::unique_ptr<Energy<float>> make_bf16_energy(MatrixView<const float> q,
                                                MatrixView<const float> k, double scale) {
  return std::make_unique<Bf16Energy>(q, k, scale);
}

std::int64_t bf16_energy_bytes(Index rows, Index cols, Index depth) {
  const Index pairs = kernel::bf16_pairs(depth);
  constexpr auto size = static_cast<std::int64_t>(sizeof(float));
  return (rows + cols) * pairs * size + kernel::Packed<float>::bytes(pairs, cols);
}

}  // namespace attn
