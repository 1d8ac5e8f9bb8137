#include "feasibility/feasibility.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "infinity.hpp"
#include "random_problem.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

using Pairs = std::vector<std::pair<Index, Index>>;
using Masses = std::vector<Index>;

// Row by row "x.x .xx": x is allowed.
AllowedPairs drawn(const std::string& text) {
  const auto cols = static_cast<Index>(std::min(text.find(' '), text.size()));
  const auto rows = (static_cast<Index>(text.size()) + 1) / (cols + 1);
  const Index row_words = (cols + 63) / 64;
  std::vector<IndexSet::Word> words(static_cast<std::size_t>(rows * row_words), 0);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      if (text[static_cast<std::size_t>(i * (cols + 1) + j)] != 'x') continue;
      words[static_cast<std::size_t>(i * row_words + j / 64)] |= IndexSet::Word{1} << (j % 64);
    }
  }
  return AllowedPairs::from_bits(rows, cols, std::move(words));
}

std::vector<double> ones(Index count) {
  return std::vector<double>(static_cast<std::size_t>(count), 1.0);
}

Feasibility square(const std::string& text) {
  const AllowedPairs pairs = drawn(text);
  return examine(pairs, ones(pairs.rows()), ones(pairs.cols()));
}

struct SupportVerdict {
  Prospect prospect = Prospect::total_support;
  Pairs vanishing;
};

bool member(unsigned set, Index i) { return ((set >> i) & 1U) != 0; }

Index sum_over(unsigned set, const Masses& masses) {
  Index sum = 0;
  for (std::size_t i = 0; i < masses.size(); ++i) {
    if (member(set, static_cast<Index>(i))) sum += masses[i];
  }
  return sum;
}

unsigned partners_of(unsigned rows, const AllowedPairs& pairs) {
  unsigned cols = 0;
  for (Index i = 0; i < pairs.rows(); ++i) {
    for (Index j = 0; j < pairs.cols(); ++j) {
      if (member(rows, i) && pairs.contains(i, j)) cols |= 1U << j;
    }
  }
  return cols;
}

// By Hall's condition (Gale 1957) on every set of rows: there is no plan if a set demands more than
// its columns have; if it demands all they have, other rows get nothing from these columns.
SupportVerdict by_subsets(const AllowedPairs& pairs, const Masses& a, const Masses& b) {
  SupportVerdict verdict;
  if (std::accumulate(a.begin(), a.end(), Index{0}) !=
      std::accumulate(b.begin(), b.end(), Index{0})) {
    verdict.prospect = Prospect::unequal_totals;
    return verdict;
  }
  unsigned open = 0;
  for (std::size_t i = 0; i < a.size(); ++i) open |= a[i] > 0 ? 1U << i : 0U;
  std::vector<unsigned> closed_to(a.size(), 0);  // the columns from which a row gets nothing
  for (unsigned rows = 0; rows < 1U << a.size(); ++rows) {
    if ((rows & ~open) != 0) continue;
    const unsigned cols = partners_of(rows, pairs);
    const Index left = sum_over(cols, b) - sum_over(rows, a);
    if (left < 0) {
      verdict.prospect = Prospect::no_plan;
      return verdict;
    }
    for (std::size_t i = 0; i < a.size() && left == 0; ++i) {
      if (!member(rows, static_cast<Index>(i))) closed_to[i] |= cols;
    }
  }
  for (Index i = 0; i < pairs.rows(); ++i) {
    for (Index j = 0; j < pairs.cols(); ++j) {
      if (a[static_cast<std::size_t>(i)] > 0 && b[static_cast<std::size_t>(j)] > 0 &&
          pairs.contains(i, j) && member(closed_to[static_cast<std::size_t>(i)], j)) {
        verdict.vanishing.emplace_back(i, j);
      }
    }
  }
  if (!verdict.vanishing.empty()) verdict.prospect = Prospect::vanishing;
  return verdict;
}

// By all permutations.
SupportVerdict by_permutations(const AllowedPairs& pairs) {
  std::vector<Index> to(static_cast<std::size_t>(pairs.rows()));
  std::iota(to.begin(), to.end(), 0);
  std::vector<unsigned> used(to.size(), 0);
  bool any = false;
  do {
    bool allowed = true;
    for (std::size_t i = 0; i < to.size(); ++i) {
      allowed = allowed && pairs.contains(static_cast<Index>(i), to[i]);
    }
    for (std::size_t i = 0; i < to.size() && allowed; ++i) used[i] |= 1U << to[i];
    any = any || allowed;
  } while (std::next_permutation(to.begin(), to.end()));
  SupportVerdict verdict;
  if (!any) {
    verdict.prospect = Prospect::no_plan;
    return verdict;
  }
  for (Index i = 0; i < pairs.rows(); ++i) {
    for (Index j = 0; j < pairs.cols(); ++j) {
      if (pairs.contains(i, j) && !member(used[static_cast<std::size_t>(i)], j)) {
        verdict.vanishing.emplace_back(i, j);
      }
    }
  }
  if (!verdict.vanishing.empty()) verdict.prospect = Prospect::vanishing;
  return verdict;
}

void check_same(const Feasibility& got, const SupportVerdict& want) {
  CHECK(static_cast<int>(got.prospect) == static_cast<int>(want.prospect));
  CHECK(got.vanishing == want.vanishing);
  CHECK(got.vanishing_count == static_cast<Index>(want.vanishing.size()));
}

// Whether the named rows or columns have less than they demand, judged only by the pairs.
void check_proof(const Shortage& shortage, const AllowedPairs& pairs, const std::vector<double>& a,
                 const std::vector<double>& b) {
  REQUIRE(!shortage.lines.empty());
  CHECK(std::is_sorted(shortage.lines.begin(), shortage.lines.end()));
  double demand = 0;
  double capacity = 0;
  for (const Index i : shortage.lines) demand += a[static_cast<std::size_t>(i)];
  Index partners = 0;
  for (Index j = 0; j < pairs.cols(); ++j) {
    const bool partner = std::any_of(shortage.lines.begin(), shortage.lines.end(),
                                     [&](Index i) { return pairs.contains(i, j); });
    if (!partner || b[static_cast<std::size_t>(j)] == 0) continue;
    ++partners;
    capacity += b[static_cast<std::size_t>(j)];
  }
  CHECK(shortage.partners == partners);
  // Sums of up to 14 numbers, in another order.
  CHECK(shortage.demand == doctest::Approx(demand).epsilon(1e-14));
  CHECK(shortage.capacity == doctest::Approx(capacity).epsilon(1e-14));
  CHECK(shortage.demand > shortage.capacity);
}

// Random pairs, and masses that often match exactly: those of a plan over some of the pairs.
struct Draw {
  AllowedPairs pairs;
  Masses a, b;
};

std::string random_text(Random& random, Index rows, Index cols) {
  const double density = std::uniform_real_distribution<double>(0.1, 0.9)(random);
  std::string text;
  for (Index i = 0; i < rows; ++i) {
    if (i > 0) text += ' ';
    for (Index j = 0; j < cols; ++j) text += chance(random, density) ? 'x' : '.';
  }
  return text;
}

Draw random_draw(Random& random) {
  const Index rows = random_index(random, 1, 7);
  const Index cols = random_index(random, 1, 7);
  Draw draw{drawn(random_text(random, rows, cols)), Masses(static_cast<std::size_t>(rows)),
            Masses(static_cast<std::size_t>(cols))};
  const double used = std::uniform_real_distribution<double>(0.2, 1)(random);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      if (!draw.pairs.contains(i, j) || !chance(random, used)) continue;
      const Index mass = random_index(random, 1, 3);
      draw.a[static_cast<std::size_t>(i)] += mass;
      draw.b[static_cast<std::size_t>(j)] += mass;
    }
  }
  if (chance(random, 0.4)) {
    // One unit elsewhere, which may exceed the capacity there.
    ++draw.a[static_cast<std::size_t>(random_index(random, 0, rows - 1))];
    ++draw.b[static_cast<std::size_t>(random_index(random, 0, cols - 1))];
  }
  if (chance(random, 0.05)) ++draw.a[0];
  return draw;
}

template <class T>
std::vector<double> rounded(const Masses& masses, double unit) {
  std::vector<double> values;
  for (const Index mass : masses) {
    values.push_back(static_cast<T>(static_cast<double>(mass) * unit));
  }
  return values;
}

template <class T>
void check_scaled(const Draw& draw, double unit, const SupportVerdict& want) {
  const std::vector<double> a = rounded<T>(draw.a, unit);
  const std::vector<double> b = rounded<T>(draw.b, unit);
  FeasibilityOptions options;
  options.epsilon = std::numeric_limits<T>::epsilon();
  const Feasibility got = examine(draw.pairs, a, b, options);
  CAPTURE(unit);
  check_same(got, want);
  if (want.prospect != Prospect::no_plan) return;
  check_proof(got.rows, draw.pairs, a, b);
  check_proof(got.cols, draw.pairs.transposed(), b, a);
}

}  // namespace

TEST_CASE("support by hand") {
  CHECK(square("xx xx").prospect == Prospect::total_support);
  CHECK(square("x. .x").prospect == Prospect::total_support);
  const Feasibility triangle = square("x.. xx. xxx");
  CHECK(triangle.prospect == Prospect::vanishing);
  CHECK(triangle.vanishing == Pairs{{1, 0}, {2, 0}, {2, 1}});
  // One more pair closes a cycle through all of the triangle, or through a part of it.
  CHECK(square("x.x xx. xxx").prospect == Prospect::total_support);
  CHECK(square("xx. xx. xxx").vanishing == Pairs{{2, 0}, {2, 1}});
  // Blocks, a band.
  CHECK(square("xx.. xx.. xxxx xxxx").vanishing == Pairs{{2, 0}, {2, 1}, {3, 0}, {3, 1}});
  CHECK(square("xx.. xxx. .xxx ..xx").prospect == Prospect::total_support);

  const Feasibility hall = square("xx.. xx.. xx.. xxxx");
  CHECK(hall.prospect == Prospect::no_plan);
  CHECK(hall.rows.lines == std::vector<Index>{0, 1, 2});
  CHECK(hall.rows.demand == 3);
  CHECK(hall.rows.capacity == 2);
  CHECK(hall.cols.lines == std::vector<Index>{2, 3});
  CHECK(hall.cols.capacity == 1);
  // A row without allowed pairs is named on its own, and so is a column.
  const Feasibility empty = square("xxx ... xxx");
  CHECK(empty.rows.lines == std::vector<Index>{1});
  CHECK(empty.rows.partners == 0);
  CHECK(square("x.x x.x x.x").cols.lines == std::vector<Index>{1});
}

TEST_CASE("marginals by hand") {
  const AllowedPairs blocks = drawn("xx. xx. ..x");
  const std::vector<double> a{1, 1, 2};
  CHECK(examine(blocks, a, std::vector<double>{0.5, 1.5, 2}).prospect == Prospect::total_support);
  const Feasibility uneven = examine(blocks, a, std::vector<double>{0.5, 1, 2.5});
  CHECK(uneven.prospect == Prospect::no_plan);
  CHECK(uneven.rows.lines == std::vector<Index>{0, 1});
  CHECK(uneven.cols.lines == std::vector<Index>{2});
  CHECK(uneven.cols.demand == 2.5);
  const Feasibility unequal = examine(blocks, a, std::vector<double>{1, 1, 1});
  CHECK(unequal.prospect == Prospect::unequal_totals);
  CHECK(unequal.row_total == 4);
  CHECK(unequal.col_total == 3);
  // A marginal of 0 masks a row or column, which then imposes no condition.
  CHECK(examine(drawn("xx .. x."), std::vector<double>{1, 0, 0}, std::vector<double>{0.5, 0.5})
            .prospect == Prospect::total_support);
  CHECK(examine(drawn("x. xx"), std::vector<double>{0, 2}, std::vector<double>{1, 1}).prospect ==
        Prospect::total_support);
  CHECK(examine(drawn("xx xx"), std::vector<double>{0, 0}, std::vector<double>{0, 0}).prospect ==
        Prospect::total_support);
}

TEST_CASE("every small set of pairs and marginals, against Hall's condition on all sets of rows") {
  Random random(21);
  std::vector<int> met(4, 0);
  for (int n = 0; n < 6000; ++n) {
    const Draw draw = random_draw(random);
    const SupportVerdict want = by_subsets(draw.pairs, draw.a, draw.b);
    ++met[static_cast<std::size_t>(want.prospect)];
    CAPTURE(n);
    check_scaled<double>(draw, 1, want);
    // Rounded, ties are no longer exact; with at most 150 units, they are still detected.
    check_scaled<double>(draw, 1.0 / 3, want);
    check_scaled<float>(draw, std::uniform_real_distribution<double>(0.01, 100)(random), want);
    check_scaled<float>(draw, 1e-30, want);
    check_scaled<double>(draw, 1e-300, want);
  }
  for (const int times : met) CHECK(times > 200);
}

TEST_CASE("equal marginals, against all permutations") {
  Random random(22);
  for (int n = 0; n < 600; ++n) {
    const Index size = random_index(random, 1, 6);
    const AllowedPairs pairs = drawn(random_text(random, size, size));
    const std::vector<double> third(static_cast<std::size_t>(size), 1.0 / 3);
    CAPTURE(n);
    check_same(examine(pairs, ones(size), ones(size)), by_permutations(pairs));
    check_same(examine(pairs, third, third), by_permutations(pairs));
  }
}

TEST_CASE("runs of columns and equal sets of bits") {
  Random random(23);
  for (int n = 0; n < 400; ++n) {
    const Index rows = random_size(random, 1, 70);
    const Index cols = random_size(random, 1, 70);
    const Causal causal =
        n % 3 == 0 ? Causal::none : (n % 3 == 1 ? Causal::top_left : Causal::bottom_right);
    BandRule rule = causal_band(causal, rows, cols);
    if (chance(random, 0.6)) rule.window = Window::nearer_than(random_size(random, 1, 70));
    const Band band(rows, cols, rule);
    std::vector<std::uint8_t> open(static_cast<std::size_t>(cols));
    for (auto& may : open) may = chance(random, 0.8) ? 1 : 0;
    std::vector<Index> begin, end;
    std::string text;
    // Marginals of a plan, some of them perturbed.
    std::vector<double> a(static_cast<std::size_t>(rows)), b(static_cast<std::size_t>(cols));
    const double used = chance(random, 0.5) ? 1 : 0.3;
    for (Index i = 0; i < rows; ++i) {
      const bool closed = chance(random, 0.1);
      begin.push_back(closed ? 0 : band.begin(i));
      end.push_back(closed ? 0 : band.end(i));
      if (i > 0) text += ' ';
      for (Index j = 0; j < cols; ++j) {
        const bool may = begin.back() <= j && j < end.back() && open[static_cast<std::size_t>(j)];
        text += may ? 'x' : '.';
        if (!may || !chance(random, used)) continue;
        a[static_cast<std::size_t>(i)] += 1;
        b[static_cast<std::size_t>(j)] += 1;
      }
    }
    if (chance(random, 0.3)) {
      a.back() += 1;
      b.front() += 1;
    }
    const auto runs = AllowedPairs::from_runs(begin, end, open);
    const auto bits = drawn(text);
    FeasibilityOptions options;
    options.listed = random_index(random, 0, 9);
    const Feasibility one = examine(runs, a, b, options);
    const Feasibility other = examine(bits, a, b, options);
    CAPTURE(n);
    CHECK(static_cast<int>(one.prospect) == static_cast<int>(other.prospect));
    CHECK(one.vanishing == other.vanishing);
    CHECK(one.vanishing_count == other.vanishing_count);
    CHECK(static_cast<Index>(one.vanishing.size()) ==
          std::min(options.listed, one.vanishing_count));
    // The minimum cut nearest to the remaining supply is the same for every maximum flow.
    CHECK(one.rows.lines == other.rows.lines);
    CHECK(one.cols.lines == other.cols.lines);
  }
}

TEST_CASE("marginals of a real plan: its pairs stay, pairs between its blocks vanish") {
  Random random(24);
  std::uniform_real_distribution<double> decades(-6, 0);
  for (int n = 0; n < 200; ++n) {
    // Lower block-triangular pairs, with a plan only on the diagonal blocks.
    const Index blocks = random_index(random, 1, 5);
    std::vector<Index> row_block, col_block;
    for (Index block = 0; block < blocks; ++block) {
      row_block.insert(row_block.end(), static_cast<std::size_t>(random_size(random, 1, 30)),
                       block);
      col_block.insert(col_block.end(), static_cast<std::size_t>(random_size(random, 1, 30)),
                       block);
    }
    std::vector<double> a(row_block.size()), b(col_block.size());
    std::string text;
    Pairs want;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i > 0) text += ' ';
      for (std::size_t j = 0; j < b.size(); ++j) {
        text += row_block[i] >= col_block[j] ? 'x' : '.';
        if (row_block[i] > col_block[j]) {
          want.emplace_back(static_cast<Index>(i), static_cast<Index>(j));
        } else if (row_block[i] == col_block[j]) {
          const double mass = std::pow(10, decades(random));
          a[i] += mass;
          b[j] += mass;
        }
      }
    }
    FeasibilityOptions options;
    options.listed = std::numeric_limits<Index>::max();
    if (n % 2 == 1) {
      options.epsilon = std::numeric_limits<float>::epsilon();
      for (double& x : a) x = static_cast<float>(x);
      for (double& x : b) x = static_cast<float>(x);
    }
    const Feasibility got = examine(drawn(text), a, b, options);
    CAPTURE(n);
    CHECK(static_cast<int>(got.prospect) ==
          static_cast<int>(want.empty() ? Prospect::total_support : Prospect::vanishing));
    CHECK(got.vanishing == want);
  }
}

TEST_CASE("totals: rounding is accepted, larger differences are not") {
  const AllowedPairs pairs = drawn("xx xx xx");
  FeasibilityOptions single;
  single.epsilon = std::numeric_limits<float>::epsilon();
  const std::vector<double> a{1.0 / 3, 1.0 / 3, 1.0 / 3};
  const std::vector<double> off{0.5, 0.5 + 1e-7};
  CHECK(examine(pairs, a, off, single).prospect == Prospect::total_support);
  CHECK(examine(pairs, a, off).prospect == Prospect::unequal_totals);
  CHECK(examine(pairs, a, std::vector<double>{0.5, 0.5 + 3e-6}, single).prospect ==
        Prospect::unequal_totals);
  CHECK(examine(drawn("xx x. .x"), a, std::vector<double>{0.5, 0.5 + 1e-7}, single).prospect ==
        Prospect::total_support);
}

TEST_CASE("invalid marginals are refused") {
  const AllowedPairs pairs = drawn("xx");
  for (const double x : {-1.0, infinity, std::nan("")}) {
    const Error error = thrown_error([&] {
      examine(pairs, std::vector<double>{1}, std::vector<double>{1, x});
    });
    CHECK(error.failure() == Failure::input);
    CHECK(contains(error.what(), "the marginal of key 1 is"));
  }
  CHECK(thrown_error([&] {
          examine(pairs, std::vector<double>{1}, std::vector<double>{1.5e308, 1.5e308});
        }).failure() == Failure::input);
}

TEST_CASE("no rows, no columns, one pair") {
  CHECK(examine(AllowedPairs::from_bits(0, 0, {}), {}, {}).prospect == Prospect::total_support);
  CHECK(examine(AllowedPairs::from_bits(1, 0, {}), ones(1), {}).prospect ==
        Prospect::unequal_totals);
  CHECK(square("x").prospect == Prospect::total_support);
  CHECK(square(".").rows.lines == std::vector<Index>{0});
}

TEST_CASE("a square causal mask of 131072 keeps only its diagonal, and is solved quickly") {
  const Index size = 131072;
  const auto energy = make_zero_energy<float>(size, size);
  Scores<float>::Terms terms;
  terms.energy = energy.get();
  terms.band.causal = true;
  const AllowedPairs pairs = allowed_pairs(Scores<float>(terms), 1);
  FeasibilityOptions options;
  options.listed = 4;
  const Feasibility equal = examine(pairs, ones(size), ones(size), options);
  CHECK(equal.prospect == Prospect::vanishing);
  CHECK(equal.vanishing_count == size * (size - 1) / 2);
  CHECK(equal.vanishing == Pairs{{1, 0}, {2, 0}, {2, 1}, {3, 0}});
  // Query 0 demands slightly more than key 0 has; the keys of all others have enough.
  std::vector<double> more = ones(size);
  more.front() = 1.001;
  more.back() = 0.999;
  const Feasibility none = examine(pairs, more, ones(size), options);
  CHECK(none.prospect == Prospect::no_plan);
  CHECK(none.rows.lines == std::vector<Index>{0});
  CHECK(none.cols.lines == std::vector<Index>{size - 1});
  // Transposed, there is slack everywhere.
  CHECK(examine(pairs, ones(size), more, options).prospect == Prospect::total_support);
}

TEST_CASE("4096 × 4096 at random, dense and sparse") {
  Random random(25);
  const Index size = 4096;
  for (const int and_words : {1, 8}) {  // half of all pairs, or 1/256 of them: 16 per row
    std::vector<IndexSet::Word> words(static_cast<std::size_t>(size * size / 64));
    for (auto& word : words) {
      word = random();
      for (int n = 1; n < and_words; ++n) word &= random();
    }
    for (Index i = 0; i < size; ++i) {
      words[static_cast<std::size_t>((i * size + i) / 64)] |= IndexSet::Word{1} << (i % 64);
    }
    const auto pairs = AllowedPairs::from_bits(size, size, words);
    CHECK(examine(pairs, ones(size), ones(size)).prospect == Prospect::total_support);
    // Marginals of the plan with equal mass at every pair.
    std::vector<double> a(static_cast<std::size_t>(size)), b(a.size());
    for (Index i = 0; i < size; ++i) {
      for (Index j = 0; j < size; ++j) {
        if (!pairs.contains(i, j)) continue;
        a[static_cast<std::size_t>(i)] += 1.0 / 3;
        b[static_cast<std::size_t>(j)] += 1.0 / 3;
      }
    }
    CHECK(examine(pairs, a, b).prospect == Prospect::total_support);
  }
}
