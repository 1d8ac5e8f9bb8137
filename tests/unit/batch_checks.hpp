#pragma once

// What several tests of batches need.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "train/language_batches.hpp"

namespace attn::testing {

using train::Batches;
using train::Epoch;
using train::padding_token;
using train::SlotBatch;
using train::TokenRows;

inline std::vector<Index> counted_tokens(Index count, Index first = 0) {
  std::vector<Index> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// By batch and slot.
using AllBatches = std::vector<std::vector<SlotBatch>>;

inline AllBatches epoch_batches(Batches& batches, const Epoch& epoch) {
  AllBatches all;
  for (Index n = 0; n < batches.batches(); ++n) all.push_back(batches.training(epoch, n));
  return all;
}

inline AllBatches evaluation_batches(const Batches& batches) {
  AllBatches all;
  for (Index n = 0; n < batches.batches(); ++n) all.push_back(batches.evaluation(n));
  return all;
}

/// All numbers of some batches, behind one another.
inline std::vector<Index> numbers_of(const AllBatches& all) {
  std::vector<Index> numbers;
  const auto add = [&](const std::vector<Index>& more) {
    numbers.push_back(std::ssize(more));
    numbers.insert(numbers.end(), more.begin(), more.end());
  };
  for (const auto& slots : all) {
    for (const SlotBatch& slot : slots) {
      add(slot.source.tokens);
      add(slot.source.lengths);
      add(slot.input.tokens);
      add(slot.input.lengths);
      add(slot.targets.rows);
      add(slot.targets.tokens);
      add(slot.swapped);
    }
  }
  return numbers;
}

/// That rows are whole or padded as they say. Returns their sequences.
inline std::vector<std::vector<Index>> checked_rows(const TokenRows& rows) {
  const Index length = rows.sequences.length;
  REQUIRE(std::ssize(rows.tokens) == rows.sequences.rows());
  REQUIRE((rows.lengths.empty() || std::ssize(rows.lengths) == rows.sequences.count));
  std::vector<std::vector<Index>> sequences;
  for (Index n = 0; n < rows.sequences.count; ++n) {
    const Index own = rows.lengths.empty() ? length : rows.lengths[static_cast<std::size_t>(n)];
    const auto row = rows.tokens.begin() + n * length;
    CHECK(own >= 1);
    CHECK(own <= length);
    CHECK(std::count(row, row + own, padding_token) == 0);
    CHECK(std::count(row + own, row + length, padding_token) == length - own);
    sequences.emplace_back(row, row + own);
  }
  if (!rows.lengths.empty()) {
    CHECK(*std::min_element(rows.lengths.begin(), rows.lengths.end()) < length);
    CHECK(*std::max_element(rows.lengths.begin(), rows.lengths.end()) == length);
  }
  return sequences;
}

inline void check_share(double found, double all, double share) {
  CAPTURE(found);
  CAPTURE(all);
  CAPTURE(share);
  CHECK(std::abs(found - share * all) <= 5 * std::sqrt(all * share * (1 - share)));
}

}  // namespace attn::testing
