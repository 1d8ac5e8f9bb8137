#include "pass/row_selection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "pass/selected_rows.hpp"
#include "random_problem.hpp"
#include "scheme_check.hpp"
#include "thrown_error.hpp"
#include "tile_recorder.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Rows shown although they are not selected, and missing rows, count as errors.
template <class T>
bool only_chosen_rows(const RowSelection& rows, const std::vector<T>& all,
                      const TileRecorder<T>& got, Index cols) {
  for (std::size_t n = 0; n < all.size(); ++n) {
    const bool chosen = rows.contains(static_cast<Index>(n) / cols);
    if (got.weights()[n] != (chosen ? all[n] : T{0})) return false;
  }
  return got.weights().size() == all.size();
}

RowSelection random_rows(Random& random, Index rows) {
  std::vector<RowRange> ranges;
  for (Index n = random_index(random, 1, 4); n > 0; --n) {
    const Index first = random_index(random, 0, rows - 1);
    ranges.push_back({first, first + random_index(random, 0, std::min<Index>(9, rows - first))});
  }
  return RowSelection(ranges, rows);
}

}  // namespace

TEST_CASE("a selection is the union of its items") {
  const RowSelection rows({{17, 18}, {0, 1}, {100, 108}, {104, 110}, {50, 50}, {18, 20}}, 110);
  REQUIRE(rows.ranges().size() == 3);
  CHECK(rows.ranges()[1].first == 17);
  CHECK(rows.ranges()[1].last == 20);
  CHECK(rows.count() == 14);
  CHECK(rows.position(0) == 0);
  CHECK(rows.position(17) == 1);
  CHECK(rows.position(19) == 3);
  CHECK(rows.position(109) == 13);
  CHECK(rows.position(50) == 4);
  CHECK(rows.contains(104));
  CHECK(!rows.contains(50));
  CHECK(!rows.contains(20));
  CHECK(rows.meets({1, 18}));
  CHECK(!rows.meets({1, 17}));
  CHECK(!rows.meets({20, 100}));
  const auto parts = rows.within({19, 101});
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].first == 19);
  CHECK(parts[0].last == 20);
  CHECK(parts[1].first == 100);
  CHECK(parts[1].last == 101);
  CHECK(RowSelection({}, 5).count() == 0);
}

TEST_CASE("rows out of range are refused") {
  for (const RowRange& bad : {RowRange{-1, 2}, RowRange{3, 2}, RowRange{0, 6}}) {
    const Error error = thrown_error([&] { RowSelection({{0, 1}, bad}, 5); });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "are not within 0:5"));
  }
}

TEST_CASE_TEMPLATE("the weights of selected queries equal those of a full pass, bit for bit", T,
                   float, double) {
  Random random(111);
  for (int n = 0; n < 24; ++n) {
    ProblemOptions options;
    options.queries = random_size(random, 1, 700);
    options.keys = random_size(random, 1, 1200);
    options.depth = random_size(random, 1, 20);
    options.mask = chance(random, 0.3);
    if (chance(random, 0.3)) options.causal = Causal::bottom_right;
    if (chance(random, 0.3)) options.window = Window::nearer_than(random_size(random, 1, 100));
    const Problem<T> problem(options, random);
    const RowSelection rows = random_rows(random, options.queries);
    SchemeOptions scheme = fixed(all_schemes[n % 4]);
    // With a tolerance, sinkhorn shows its weights by another method.
    if (n % 8 == 7) scheme.stopping.tolerance = 1e-3;
    CAPTURE(n);
    CAPTURE(options.queries);
    CAPTURE(options.keys);
    KeepWeights<T> all;
    TileRecorder<T> filtered(true);
    SelectedRows<T> filter(rows, filtered);
    auto found = attend<T>(problem.scores(), scheme, {&all, &filter}, 2);
    TileRecorder<T> alone(true), sparse(false);
    show_rows<T>(problem.scores(), scheme, found.potentials, rows, {&alone, &sparse}, 2);
    CHECK(only_chosen_rows(rows, all.values, filtered, options.keys));
    CHECK(only_chosen_rows(rows, all.values, alone, options.keys));
    CHECK(only_chosen_rows(rows, all.values, sparse, options.keys));
    CHECK(alone.started_and_finished_once());
    CHECK(filtered.started_and_finished_once());
  }
}

TEST_CASE("only the panels of the selected rows are computed") {
  // Scores that fail beyond the first panel.
  class FirstPanel final : public Energy<double> {
   public:
    Index rows() const override { return 1000; }
    Index cols() const override { return 5; }
    void fill(const TileRange& range, MatrixView<double> out) const override {
      if (range.row0 >= 128) throw std::runtime_error("asked for a row that nobody needs");
      for (Index i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, 0.0);
    }
    double bound() const override { return 0; }
  };
  const FirstPanel energy;
  Scores<double>::Terms terms;
  terms.energy = &energy;
  const Scores<double> scores(terms);
  Potentials potentials;
  TileRecorder<double> shown(false);
  show_rows<double>(scores, fixed(Scheme::unas), potentials, RowSelection({{3, 4}}, 1000), {&shown},
                    2);
  CHECK(shown.weights()[3 * 5] == doctest::Approx(0.2));
  CHECK(shown.weights()[4 * 5] == 0);
  CHECK_THROWS_AS(show_rows<double>(scores, fixed(Scheme::unas), potentials,
                                    RowSelection({{500, 501}}, 1000), {&shown}, 2),
                  std::runtime_error);
}

TEST_CASE("column panels do not accept a selection of rows") {
  const auto energy = make_zero_energy<double>(3, 3);
  Scores<double>::Terms terms;
  terms.energy = energy.get();
  const Scores<double> scores(terms);
  const RowSelection rows({{0, 1}}, 3);
  Pass<double> pass;
  pass.scores = &scores;
  pass.order = Order::column_panels;
  pass.components = {Component{}};
  pass.rows = &rows;
  CHECK_THROWS_AS(run(pass, 1), std::logic_error);
}
