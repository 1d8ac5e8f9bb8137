#include "feasibility/allowed_pairs.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
bool same_pairs(const AllowedPairs& pairs, const Scores<T>& scores) {
  std::vector<T> values(static_cast<std::size_t>(scores.rows() * scores.cols()));
  const MatrixView<T> filled(values.data(), scores.rows(), scores.cols());
  typename Scores<T>::Scratch scratch;
  scores.fill({0, scores.rows(), 0, scores.cols()}, filled, scratch);
  bool same = pairs.rows() == scores.rows() && pairs.cols() == scores.cols();
  for (Index i = 0; same && i < scores.rows(); ++i) {
    for (Index j = 0; j < scores.cols(); ++j) {
      same = same && pairs.contains(i, j) == !std::isinf(filled(i, j));
    }
  }
  return same;
}

// next() and the transposed pairs against contains().
bool consistent(const AllowedPairs& pairs, Random& random) {
  const AllowedPairs transposed = pairs.transposed();
  IndexSet cols = pairs.open_cols();
  IndexSet rows = transposed.open_cols();
  bool same = transposed.rows() == pairs.cols() && transposed.cols() == pairs.rows();
  for (int removed = 0;; ++removed) {
    for (Index i = 0; i < pairs.rows(); ++i) {
      Index want = pairs.cols();
      for (Index j = pairs.cols(); j-- > 0;) {
        if (pairs.contains(i, j) && cols.contains(j)) want = j;
        same = same && pairs.next(i, j, cols) == want;
      }
    }
    for (Index j = 0; j < pairs.cols(); ++j) {
      Index want = pairs.rows();
      for (Index i = pairs.rows(); i-- > 0;) {
        same = same && transposed.contains(j, i) == pairs.contains(i, j);
        if (pairs.contains(i, j) && rows.contains(i)) want = i;
        same = same && transposed.next(j, i, rows) == want;
      }
    }
    if (removed == 3) return same;
    for (Index j = 0; j < pairs.cols(); ++j) {
      if (chance(random, 0.4)) cols.remove(j);
    }
    for (Index i = 0; i < pairs.rows(); ++i) {
      if (chance(random, 0.4)) rows.remove(i);
    }
  }
}

}  // namespace

TEST_CASE("a shrinking set of indices, against std::set") {
  Random random(11);
  for (const Index size : {0, 1, 2, 63, 64, 65, 127, 4095, 4096, 4097, 300000}) {
    IndexSet set(size);
    std::set<Index> plain;
    for (Index i = 0; i < size; ++i) plain.insert(plain.end(), i);
    CHECK(set.next(size) == size);
    for (int n = 0; n < 3000; ++n) {
      const Index i = random_index(random, 0, size);
      if (i < size) {
        set.remove(i);
        plain.erase(i);
      }
      const Index from = random_index(random, 0, size);
      const auto want = plain.lower_bound(from);
      REQUIRE(set.next(from) == (want == plain.end() ? size : *want));
      if (from < size) REQUIRE(set.contains(from) == (plain.count(from) == 1));
    }
    for (Index i = 0; i < size; ++i) set.remove(i);
    CHECK(set.next(0) == size);
  }
}

TEST_CASE_TEMPLATE("pairs with a finite score are allowed", T, float, double) {
  Random random(12);
  int in_runs = 0;
  for (int n = 0; n < 150; ++n) {
    ProblemOptions options = random_options(random, 150);
    options.depth = options.v_head_dim = 1;
    options.preference = chance(random, 0.2);
    if (chance(random, 0.4)) options.window = Window::nearer_than(random_size(random, 1, 150));
    if (chance(random, 0.4)) options.key_length = random_index(random, 0, options.keys);
    const Problem<T> problem(options, random);
    const auto pairs = allowed_pairs(problem.scores(), n % 3 + 1);
    CAPTURE(n);
    CHECK(same_pairs(pairs, problem.scores()));
    CHECK(consistent(pairs, random));
    in_runs += pairs.in_runs() ? 1 : 0;
  }
  CHECK(in_runs > 10);
  CHECK(in_runs < 140);
}

TEST_CASE("masks that broadcast over queries forbid keys; ready-made scores are inspected") {
  Random random(13);
  for (int n = 0; n < 60; ++n) {
    const Index rows = random_size(random, 1, 90);
    const Index cols = random_size(random, 1, 90);
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(cols));
    for (auto& may : mask) may = chance(random, 0.6) ? 1 : 0;
    const BroadcastMatrix<std::uint8_t> source(mask.data(), 0, 1);
    std::vector<float> ready(static_cast<std::size_t>(rows * cols));
    for (float& s : ready) {
      s = chance(random, 0.3) ? -std::numeric_limits<float>::infinity() : 0.5F;
    }
    const BroadcastMatrix<float> stored(ready.data(), cols, 1);
    const bool looks = n % 2 == 1;
    const auto energy = looks ? make_stored_energy<float>(stored, rows, cols, 2)
                              : make_zero_energy<float>(rows, cols);
    Scores<float>::Terms terms;
    terms.energy = energy.get();
    terms.mask = &source;
    if (chance(random, 0.5)) terms.band = causal_band(Causal::bottom_right, rows, cols);
    const Scores<float> scores(terms);
    const auto pairs = allowed_pairs(scores, 2);
    if (!looks) CHECK(pairs.in_runs());
    CHECK(same_pairs(pairs, scores));
    CHECK(consistent(pairs, random));
    CHECK(scores.allowed_counts().keys_of_query.size() == static_cast<std::size_t>(rows));
    CHECK(allowed_pairs_bytes(scores) ==
          (looks ? rows * ((cols + 63) / 64) * 8 : 16 * rows + cols));
  }
}

TEST_CASE("runs of bits are detected, whichever rows and columns are masked") {
  Random random(15);
  int others = 0;
  for (int n = 0; n < 300; ++n) {
    const Index rows = random_size(random, 1, 150);
    const Index cols = random_size(random, 1, 150);
    const Band band(rows, cols,
                    {n % 2 == 0, Window::nearer_than(random_size(random, 1, 150)),
                     random_index(random, -20, 20)});
    const Index row_words = (cols + 63) / 64;
    std::vector<IndexSet::Word> words(static_cast<std::size_t>(rows * row_words), 0);
    std::vector<bool> closed_row, closed_col;
    for (Index i = 0; i < rows; ++i) closed_row.push_back(chance(random, 0.2));
    for (Index j = 0; j < cols; ++j) closed_col.push_back(chance(random, 0.2));
    const bool spoilt = chance(random, 0.3);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = band.begin(i); j < band.end(i); ++j) {
        if (closed_row[static_cast<std::size_t>(i)] || closed_col[static_cast<std::size_t>(j)] ||
            (spoilt && chance(random, 0.05))) {
          continue;
        }
        words[static_cast<std::size_t>(i * row_words + j / 64)] |= IndexSet::Word{1} << (j % 64);
      }
    }
    const auto bits = AllowedPairs::from_bits(rows, cols, words);
    const auto simplified = AllowedPairs::from_bits(rows, cols, words).simplified();
    CHECK((spoilt || simplified.in_runs()));
    others += simplified.in_runs() ? 0 : 1;
    bool same = true;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        same = same && bits.contains(i, j) == simplified.contains(i, j);
      }
    }
    CHECK(same);
    CHECK(consistent(bits, random));
    CHECK(consistent(simplified, random));
  }
  CHECK(others > 20);
}

TEST_CASE("empty pairs, and invalid input") {
  Random random(14);
  for (const Index rows : {0, 1, 3}) {
    for (const Index cols : {0, 1, 70}) {
      const auto words = static_cast<std::size_t>(rows * ((cols + 63) / 64));
      const auto pairs = AllowedPairs::from_bits(rows, cols, std::vector<IndexSet::Word>(words));
      CHECK(pairs.rows() == rows);
      CHECK(pairs.cols() == cols);
      CHECK(consistent(pairs, random));
    }
  }
  CHECK_THROWS_AS(AllowedPairs::from_bits(2, 65, std::vector<IndexSet::Word>(3)), std::logic_error);
  CHECK_THROWS_AS(AllowedPairs::from_runs({1, 0}, {2, 2}, {1, 1}), std::logic_error);
  CHECK_THROWS_AS(AllowedPairs::from_runs({0}, {3}, {1, 1}), std::logic_error);
}
