// Keys and values that are read as they are needed, against those in memory.

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "pass/output.hpp"
#include "random_problem.hpp"
#include "score/read_energy.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::testing;
using namespace attn::tile_oracle;

namespace {

template <class T>
class RowsInMemory final : public RowSource<T> {
 public:
  explicit RowsInMemory(MatrixView<const T> of, std::int64_t kept_bytes = 0)
      : of_(of), kept_bytes_(kept_bytes) {}
  Index rows() const override { return of_.rows; }
  Index cols() const override { return of_.cols; }
  std::int64_t kept_bytes() const override { return kept_bytes_; }
  void read(Index first, MatrixView<T> out) const override {
    REQUIRE(first + out.rows <= of_.rows);
    for (Index i = 0; i < out.rows; ++i) std::copy_n(of_.row(first + i), out.cols, out.row(i));
  }

 private:
  MatrixView<const T> of_;
  std::int64_t kept_bytes_;
};

// So long that a block has few hundred of them.
constexpr Index depth = 1000;

template <class T>
void check_energy(Index queries, Index keys, Random& random) {
  CAPTURE(keys);
  const auto q = uniform_matrix<T>(queries, depth, random);
  const auto k = uniform_matrix<T>(keys, depth, random);
  for (const auto kind : {EnergyKind::dot, EnergyKind::scaled_dot}) {
    // One block of keys is kept.
    const bool keeps = kind == EnergyKind::dot;
    const RowsInMemory<T> rows(k.view(), keeps ? 600 * depth * Index{sizeof(T)} : 0);
    const auto whole = make_product_energy<T>(kind, q.view(), k.view(), 0.07);
    const auto read = make_read_energy<T>(kind, q.view(), rows, 0.07);
    REQUIRE(read->rows() == queries);
    REQUIRE(read->cols() == keys);
    CHECK(read->bound() == whole->bound());
    CHECK(read->magnitude() == whole->magnitude());
    for (int n = 0; n < 12; ++n) {
      const Index row0 = random_index(random, 0, queries - 1);
      const Index col0 = n < 4 ? n / 2 * 64 : random_index(random, 0, keys - 1);
      if (col0 >= keys) continue;
      const Index cols = n % 2 == 0 ? keys - col0 : random_size(random, 1, keys - col0);
      const TileRange range{row0, random_size(random, 1, queries - row0), col0, cols};
      CAPTURE(col0);
      CAPTURE(cols);
      Guarded<T> expected(range.rows, range.cols);
      Guarded<T> found(range.rows, range.cols);
      const auto same = [&] {
        bool all = true;
        for (Index i = 0; i < range.rows; ++i) {
          for (Index j = 0; j < range.cols; ++j) {
            all = all && found.view()(i, j) == expected.view()(i, j);
          }
        }
        return all;
      };
      whole->fill(range, expected.view());
      read->fill(range, found.view());
      CHECK(same());
      std::vector<double> sums(static_cast<std::size_t>(2 * range.rows)), found_sums(sums.size());
      const bool fills = whole->fill_exponentials(range, expected.view(), sums.data(), nullptr,
                                                  sums.data() + range.rows);
      REQUIRE(read->fill_exponentials(range, found.view(), found_sums.data(), nullptr,
                                      found_sums.data() + range.rows) == fills);
      if (!fills) continue;
      CHECK(same());
      CHECK(found_sums == sums);
      std::vector<double> columns(static_cast<std::size_t>(range.cols)), found_columns(columns);
      REQUIRE(whole->fill_exponentials(range, expected.view(), nullptr, columns.data(), nullptr));
      REQUIRE(read->fill_exponentials(range, found.view(), nullptr, found_columns.data(), nullptr));
      CHECK(found_columns == columns);
    }
  }
}

template <class T>
std::vector<T> gathered(Output<T> output, MatrixView<const T> weights, std::vector<T>& out) {
  output.start(row_tile_partition(weights.rows, weights.cols));
  for (Index first = 0; first < weights.cols; first += 100) {
    const TileRange range{0, weights.rows, first, std::min<Index>(100, weights.cols - first)};
    const MatrixView<const T> tile(weights.data + first, weights.rows, range.cols,
                                   weights.row_stride);
    output.observe(WeightTile<T>{range, tile}, 0);
  }
  output.finish();
  return out;
}

}  // namespace

TEST_CASE_TEMPLATE("energies of keys that are read", T, float, double) {
  on_every_target([] {
    Random random(751);
    for (const Index keys : {1, 63, 256, 257, 900}) check_energy<T>(17, keys, random);
  });
}

TEST_CASE("energies of keys that are read for too few queries") {
  Random random(752);
  const auto q = uniform_matrix<float>(15, 4, random);
  const auto k = uniform_matrix<float>(30, 4, random);
  const RowsInMemory<float> rows(k.view());
  CHECK_THROWS_AS(make_read_energy<float>(EnergyKind::dot, q.view(), rows, 1), std::logic_error);
  CHECK_THROWS_AS(make_read_energy<float>(EnergyKind::gaussian, k.view(), rows, 1),
                  std::logic_error);
  const MatrixView<const float> none(nullptr, 0, 4);
  CHECK(make_read_energy<float>(EnergyKind::dot, none, rows, 1)->cols() == 30);
}

TEST_CASE_TEMPLATE("outputs of values that are read", T, float, double) {
  Random random(753);
  constexpr Index queries = 19;
  for (const double size : {1.0, 1e30, 1e-30}) {
    for (const Index keys : {1, 255, 900}) {
      CAPTURE(keys);
      const auto weights = uniform_matrix<T>(queries, keys, random);
      const auto v = uniform_matrix<T>(keys, depth, random, size);
      const RowsInMemory<T> rows(v.view());
      std::vector<T> out(queries * depth);
      const MatrixView<T> to(out.data(), queries, depth);
      const std::vector<T> whole = gathered(Output<T>(v.view(), to), weights.view(), out);
      std::fill(out.begin(), out.end(), T{7});
      CHECK(gathered(Output<T>(rows, to), weights.view(), out) == whole);
    }
  }
}
