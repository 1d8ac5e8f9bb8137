// Sums over heads of which ranks have some rows each: the numbers of SharedSums.

#include "attn_compute/shared_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "random_problem.hpp"
#include "same_bits.hpp"
#include "thread_ranks.hpp"

using namespace attn;
using namespace attn::testing;
using namespace attn::tools;

namespace {

struct SharedCase {
  std::vector<Index> block_of;
  Index blocks = 1;
  Index rows = 0;
  Index cols = 0;
};

// The part of a head: rows [first, first + count), the others are 0.
template <class T>
struct HeadPart {
  Index first = 0;
  Index count = 0;
  bool everywhere = false;  // every rank has it
  std::vector<T> numbers;
};

template <class T>
std::vector<HeadPart<T>> random_parts(const SharedCase& of, Random& random) {
  std::vector<HeadPart<T>> parts(of.block_of.size());
  std::normal_distribution<double> draw(0, 1e3);
  for (HeadPart<T>& part : parts) {
    part.first = std::uniform_int_distribution<Index>(0, of.rows)(random);
    part.count = std::uniform_int_distribution<Index>(0, of.rows - part.first)(random);
    part.everywhere = chance(random, 0.3);
    part.numbers.resize(static_cast<std::size_t>(of.rows * of.cols));
    for (Index n = part.first * of.cols; n < (part.first + part.count) * of.cols; ++n) {
      part.numbers[static_cast<std::size_t>(n)] = static_cast<T>(draw(random));
    }
  }
  return parts;
}

// All blocks, one after the other.
template <class T>
std::vector<T> at_once(const SharedCase& of, const std::vector<HeadPart<T>>& parts) {
  SharedSums<T> sums(of.block_of, of.blocks);
  std::vector<T> found(static_cast<std::size_t>(of.blocks * of.rows * of.cols));
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const auto sum = sums.add(static_cast<Index>(n), parts[n].numbers);
    std::copy(sum.begin(), sum.end(), found.begin() + of.block_of[n] * of.rows * of.cols);
  }
  return found;
}

// Rank r has every third piece of a part, from number r on.
template <class T>
std::vector<T> in_rows(const SharedCase& of, const std::vector<HeadPart<T>>& parts) {
  kernel::Ranks& ranks = *kernel::Ranks::current();
  SharedRows<T> shared(ranks, of.block_of, of.blocks, of.rows, of.cols);
  std::vector<T> found(static_cast<std::size_t>(of.blocks * of.rows * of.cols));
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const HeadPart<T>& part = parts[n];
    if (part.everywhere) {
      shared.take_own(part.first, part.count, part.numbers.data() + part.first * of.cols);
    } else {
      for (Index at = 0; at < part.count; at += 7) {
        const int from = static_cast<int>(at / 7 % ranks.count());
        const Index first = part.first + at;
        const T* const numbers = part.numbers.data() + first * of.cols;
        shared.take({from, first, std::min<Index>(7, part.count - at),
                     from == ranks.own() ? numbers : nullptr});
      }
    }
    shared.end_head(static_cast<Index>(n), [&](const GatheredRows<T>& rows) {
      Buffer<T> room;
      const T* const numbers = at_first_rank(ranks, rows, of.cols, room);
      CHECK((numbers == nullptr) == (ranks.own() > 0));
      if (numbers == nullptr) return;
      const Index first = of.block_of[n] * of.rows + rows.first;
      std::copy_n(numbers, rows.count * of.cols, found.begin() + first * of.cols);
    });
  }
  return found;
}

}  // namespace

TEST_CASE_TEMPLATE("sums of rows have the bits of sums at once", T, float, double) {
  Random random(421);
  for (const SharedCase& of : {SharedCase{{0, 0, 0}, 1, 100, 3}, SharedCase{{0, 0, 1, 1}, 2, 37, 1},
                               SharedCase{{0, 1, 0, 1}, 2, 64, 5}, SharedCase{{0, 0}, 1, 2, 4},
                               SharedCase{{0, 0, 1}, 2, 5000, 100}}) {
    const std::vector<HeadPart<T>> parts = random_parts<T>(of, random);
    const std::vector<T> want = at_once(of, parts);
    for (const int count : {1, 2, 3, 5}) {
      CAPTURE(of.rows);
      CAPTURE(count);
      const auto found = on_ranks(count, [&] { return in_rows<T>(of, parts); });
      CHECK(same_bits(found.front(), want));
    }
  }
}
