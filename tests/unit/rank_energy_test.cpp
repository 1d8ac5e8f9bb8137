// Energies whose bits do not depend on the range, and those of which a rank has some rows.

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "random_problem.hpp"
#include "score/rank_energy.hpp"
#include "thread_ranks.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::testing;
using namespace attn::tile_oracle;

TEST_CASE_TEMPLATE("an energy's bits do not depend on the range, if it says so", T, float, double) {
  on_every_target([] {
    Random random(741);
    const auto q = uniform_matrix<T>(40, 9, random);
    const auto k = uniform_matrix<T>(150, 9, random);
    for (const auto kind : {EnergyKind::dot, EnergyKind::scaled_dot}) {
      const auto energy = make_product_energy<T>(kind, q.view(), k.view(), 0.7);
      REQUIRE(energy->same_in_any_range());
      Guarded<T> whole(40, 150);
      energy->fill({0, 40, 0, 150}, whole.view());
      bool same = true;
      for (Index n = 0; n < 60; ++n) {
        const Index row0 = random_index(random, 0, 39);
        const Index col0 = random_index(random, 0, 149);
        const TileRange range{row0, random_size(random, 1, 40 - row0), col0,
                              random_size(random, 1, 150 - col0)};
        Guarded<T> part(range.rows, range.cols);
        energy->fill(range, part.view());
        for (Index i = 0; i < range.rows; ++i) {
          for (Index j = 0; j < range.cols; ++j) {
            same = same && part.view()(i, j) == whole.view()(row0 + i, col0 + j);
          }
        }
      }
      CHECK(same);
    }
  });
}

TEST_CASE("energies of the queries of a rank") {
  Random random(742);
  const auto q = uniform_matrix<float>(100, 8, random);
  const auto k = uniform_matrix<float>(30, 8, random);
  const auto whole = make_product_energy<float>(EnergyKind::dot, q.view(), k.view(), 2);
  Guarded<float> expected(100, 30);
  whole->fill({0, 100, 0, 30}, expected.view());
  // The second of three ranks has none.
  const Index ends[] = {0, 60, 60, 100};
  struct Found {
    double bound, magnitude;
    bool same, throws;
  };
  const auto found = on_ranks(3, [&] {
    const auto rank = static_cast<std::size_t>(kernel::Ranks::current()->own());
    const Index first = ends[rank];
    const Index count = ends[rank + 1] - first;
    const auto energy = make_rank_energy(
        make_product_energy<float>(EnergyKind::dot, q.view().row_range(first, count), k.view(), 2),
        first, 100);
    Found one{energy->bound(), energy->magnitude(), energy->rows() == 100 && energy->cols() == 30,
              false};
    Guarded<float> own(count, 30);
    if (count > 0) energy->fill({first, count, 0, 30}, own.view());
    for (Index i = 0; i < count; ++i) {
      for (Index j = 0; j < 30; ++j) {
        one.same = one.same && own.view()(i, j) == expected.view()(first + i, j);
      }
    }
    Guarded<float> other(1, 30);
    try {
      energy->fill({first == 0 ? 60 : first - 1, 1, 0, 30}, other.view());
    } catch (const std::logic_error&) {
      one.throws = true;
    }
    return one;
  });
  for (const Found& one : found) {
    CHECK(one.bound == whole->bound());
    CHECK(one.magnitude == whole->magnitude());
    CHECK(one.same);
    CHECK(one.throws);
  }
}
