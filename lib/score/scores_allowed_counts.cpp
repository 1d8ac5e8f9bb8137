// Scores::allowed, the counts made from it, and what they decide.

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "parallel/rank_share.hpp"
#include "score/scores.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// Turns counts over the rows of each rank into counts over all rows.
void add_up_ranks(const RankShare& rows, Index rows_per_item, AllowedCounts& counts) {
  if (!rows.divided()) return;
  const auto all = static_cast<Index>(counts.keys_of_query.size());
  rows.complete_numbers(std::span(counts.keys_of_query),
                        [&](Index item) { return std::min(all, item * rows_per_item); });
  Ranks& ranks = *Ranks::current();
  const RankShare by_rank(ranks.count(), &ranks);
  PooledVector<Index> totals(counts.queries_of_key.size(), 0);
  const auto memory = [&](const RankShare::Visit& visit) {
    visit(std::as_writable_bytes(std::span(totals)));
  };
  by_rank.add_in_turn(ranks.own(), memory, [&] {
    for (std::size_t j = 0; j < totals.size(); ++j) totals[j] += counts.queries_of_key[j];
  });
  by_rank.take_totals(memory);
  counts.queries_of_key = std::move(totals);
}

}  // namespace

template <class T>
bool Scores<T>::rows_alike() const {
  return !terms_.energy->may_forbid() && (terms_.bias == nullptr || terms_.bias->rows_alike()) &&
         (terms_.mask == nullptr || terms_.mask->rows_alike()) &&
         (terms_.preference == nullptr || terms_.preference->rows_alike());
}

template <class T>
PooledVector<std::uint8_t> Scores<T>::open_keys() const {
  PooledVector<std::uint8_t> open(static_cast<std::size_t>(cols()), 1);
  const bool looks =
      terms_.bias != nullptr || terms_.mask != nullptr || terms_.preference != nullptr;
  if (!looks || rows() == 0) return open;
  constexpr Index tile_cols = 4096;
  Scratch scratch;
  for (Index col0 = 0; col0 < cols(); col0 += tile_cols) {
    const TileRange range{0, 1, col0, std::min(tile_cols, cols() - col0)};
    const Read terms = read(range, scratch, false);
    allow_row(terms, 0, open.data() + col0, range.cols);
  }
  return open;
}

template <class T>
void Scores<T>::allowed(const TileRange& range, MatrixView<std::uint8_t> out,
                        Scratch& scratch) const {
  Read terms = read(range, scratch, false);
  // allow() reads the mask, if there is one, and overwrites it.
  if (terms_.mask == nullptr) {
    terms.mask = out;
  }
  allow(range, terms);
  for (Index i = 0; i < range.rows && terms_.mask != nullptr; ++i) {
    std::copy_n(terms.mask.row(i), range.cols, out.row(i));
  }
  if (!terms_.energy->may_forbid()) return;
  scratch.energy.reserve(range.rows * range.cols);
  const MatrixView<T> energy(scratch.energy.data(), range.rows, range.cols);
  terms_.energy->fill(range, energy);
  for (Index i = 0; i < range.rows; ++i) {
    const T* row = energy.row(i);
    std::uint8_t* may = out.row(i);
    for (Index j = 0, end = range.cols; j < end; ++j) {
      may[j] &= static_cast<std::uint8_t>(row[j] != -std::numeric_limits<T>::infinity());
    }
  }
}

template <class T>
AllowedCounts Scores<T>::allowed_counts() const {
  return rows_alike() ? allowed_counts_of_one_row() : allowed_counts_by_scan();
}

// The band of each query without the keys that are forbidden to all.
template <class T>
AllowedCounts Scores<T>::allowed_counts_of_one_row() const {
  AllowedCounts counts = band_.allowed_counts();
  if (terms_.bias == nullptr && terms_.mask == nullptr && terms_.preference == nullptr) {
    return counts;
  }
  const PooledVector<std::uint8_t> open = open_keys();
  PooledVector<Index> open_before(static_cast<std::size_t>(cols()) + 1, 0);
  for (std::size_t j = 0; j < open.size(); ++j) {
    open_before[j + 1] = open_before[j] + open[j];
    if (open[j] == 0) counts.queries_of_key[j] = 0;
  }
  for (Index i = 0; i < rows(); ++i) {
    counts.keys_of_query[static_cast<std::size_t>(i)] =
        open_before[static_cast<std::size_t>(band_.end(i))] -
        open_before[static_cast<std::size_t>(band_.begin(i))];
  }
  return counts;
}

template <class T>
AllowedCounts Scores<T>::allowed_counts_by_scan() const {
  AllowedCounts counts;
  counts.keys_of_query.assign(static_cast<std::size_t>(rows()), 0);
  counts.queries_of_key.assign(static_cast<std::size_t>(cols()), 0);
  constexpr Index tile_rows = 64;
  static_assert(tile_rows <= std::numeric_limits<std::uint8_t>::max());
  constexpr Index tile_cols = 1024;
  Buffer<std::uint8_t> storage(tile_rows * tile_cols);
  Scratch scratch;
  const auto share = RankShare::of_held_rows((rows() + tile_rows - 1) / tile_rows);
  for (Index n = 0; n < share.own_count(); ++n) {
    const Index row0 = share.own_item(n) * tile_rows;
    for (Index col0 = 0; col0 < cols(); col0 += tile_cols) {
      const TileRange range{row0, std::min(tile_rows, rows() - row0), col0,
                            std::min(tile_cols, cols() - col0)};
      if (empty(range)) continue;
      const MatrixView<std::uint8_t> may(storage.data(), range.rows, range.cols);
      allowed(range, may, scratch);
      // A tile has so few rows that bytes suffice to count them.
      std::array<std::uint8_t, tile_cols> of_key{};
      for (Index i = 0; i < range.rows; ++i) {
        const std::uint8_t* row = may.row(i);
        counts.keys_of_query[static_cast<std::size_t>(row0 + i)] +=
            std::accumulate(row, row + range.cols, 0);
        for (Index j = 0; j < range.cols; ++j) of_key[static_cast<std::size_t>(j)] += row[j];
      }
      for (Index j = 0; j < range.cols; ++j) {
        counts.queries_of_key[static_cast<std::size_t>(col0 + j)] +=
            of_key[static_cast<std::size_t>(j)];
      }
    }
  }
  add_up_ranks(share, tile_rows, counts);
  return counts;
}

template <class T>
void require_defined(const Scores<T>& scores, std::span<const double> row_masses,
                     std::span<const double> col_masses, const std::string& hint) {
  const UndefinedLines* const undefined = scores.terms().energy->undefined();
  if (undefined == nullptr) return;
  const std::unique_ptr<Energy<T>> zero = make_zero_energy<T>(scores.rows(), scores.cols());
  typename Scores<T>::Terms terms = scores.terms();
  terms.energy = zero.get();
  const AllowedCounts counts = Scores<T>(terms).allowed_counts();
  const auto require = [&](const char* what, const PooledVector<Index>& lines,
                           const PooledVector<Index>& partners, std::span<const double> masses) {
    for (const Index line : lines) {
      const auto n = static_cast<std::size_t>(line);
      if (partners[n] == 0 || (!masses.empty() && masses[n] == 0)) continue;
      throw Error(Failure::input,
                  std::string(what) + " " + std::to_string(line) + " " + undefined->why, hint);
    }
  };
  require("query", undefined->rows, counts.keys_of_query, row_masses);
  require("key", undefined->cols, counts.queries_of_key, col_masses);
}

template void require_defined(const Scores<float>&, std::span<const double>,
                              std::span<const double>, const std::string&);
template void require_defined(const Scores<double>&, std::span<const double>,
                              std::span<const double>, const std::string&);
template bool Scores<float>::rows_alike() const;
template PooledVector<std::uint8_t> Scores<float>::open_keys() const;
template void Scores<float>::allowed(const TileRange&, MatrixView<std::uint8_t>, Scratch&) const;
template AllowedCounts Scores<float>::allowed_counts() const;
template bool Scores<double>::rows_alike() const;
template PooledVector<std::uint8_t> Scores<double>::open_keys() const;
template void Scores<double>::allowed(const TileRange&, MatrixView<std::uint8_t>, Scratch&) const;
template AllowedCounts Scores<double>::allowed_counts() const;

}  // namespace attn
