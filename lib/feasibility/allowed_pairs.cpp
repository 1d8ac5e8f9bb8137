#include "feasibility/allowed_pairs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <stdexcept>
#include <utility>

#include "parallel/parallel_for.hpp"
#include "parallel/rank_share.hpp"

namespace attn {
namespace {

using Word = IndexSet::Word;
constexpr Index word_bits = IndexSet::word_bits;

constexpr Index words_of(Index count) { return (count + word_bits - 1) / word_bits; }

// Swaps bit j of word i with bit i of word j, by halves (Warren, Hacker's Delight, 7-3).
void transpose(std::array<Word, 64>& block) {
  Word mask = 0xFFFFFFFF;
  for (std::size_t half = 32; half != 0; half /= 2, mask ^= mask << half) {
    for (std::size_t i = 0; i < 64; i = (i + half + 1) & ~half) {
      const Word swapped = ((block[i] >> half) ^ block[i + half]) & mask;
      block[i] ^= swapped << half;
      block[i + half] ^= swapped;
    }
  }
}

}  // namespace

AllowedPairs AllowedPairs::from_runs(PooledVector<Index> begin, PooledVector<Index> end,
                                     PooledVector<std::uint8_t> open) {
  AllowedPairs pairs;
  pairs.rows_ = static_cast<Index>(begin.size());
  pairs.cols_ = static_cast<Index>(open.size());
  bool good = begin.size() == end.size();
  Index least_begin = 0;
  Index least_end = 0;
  for (std::size_t i = 0; good && i < begin.size(); ++i) {
    good = 0 <= begin[i] && begin[i] <= end[i] && end[i] <= pairs.cols_;
    if (begin[i] == end[i]) continue;
    good = good && least_begin <= begin[i] && least_end <= end[i];
    least_begin = begin[i];
    least_end = end[i];
  }
  if (!good) throw std::logic_error("runs move back or leave the columns");
  pairs.begin_ = std::move(begin);
  pairs.end_ = std::move(end);
  pairs.open_ = std::move(open);
  return pairs;
}

AllowedPairs AllowedPairs::from_bits(Index rows, Index cols, PooledVector<Word> words) {
  if (static_cast<Index>(words.size()) != rows * words_of(cols)) {
    throw std::logic_error("the number of words does not fit the rows of bits");
  }
  AllowedPairs pairs;
  if (words.empty()) {
    const auto count = static_cast<std::size_t>(rows);
    return from_runs(PooledVector<Index>(count), PooledVector<Index>(count),
                     PooledVector<std::uint8_t>(static_cast<std::size_t>(cols)));
  }
  pairs.rows_ = rows;
  pairs.cols_ = cols;
  pairs.bits_ = std::move(words);
  pairs.row_words_ = words_of(cols);
  return pairs;
}

bool AllowedPairs::contains(Index row, Index col) const {
  if (in_runs()) {
    return run_begin(row) <= col && col < run_end(row) && open_[static_cast<std::size_t>(col)] != 0;
  }
  return ((bits(row)[static_cast<std::size_t>(col / word_bits)] >> (col % word_bits)) & 1U) != 0;
}

bool AllowedPairs::whole() const {
  const auto all = [this](std::size_t i) { return begin_[i] == 0 && end_[i] == cols_; };
  if (!in_runs() || std::count(open_.begin(), open_.end(), 0) > 0) return false;
  for (std::size_t i = 0; i < begin_.size(); ++i) {
    if (!all(i)) return false;
  }
  return true;
}

IndexSet AllowedPairs::open_cols() const {
  IndexSet set(cols_);
  for (std::size_t j = 0; j < open_.size(); ++j) {
    if (open_[j] == 0) set.remove(static_cast<Index>(j));
  }
  return set;
}

Index AllowedPairs::next(Index row, Index from, const IndexSet& among) const {
  if (in_runs()) {
    const Index col = among.next(std::max(from, run_begin(row)));
    return col < run_end(row) ? col : cols_;
  }
  const std::span<const Word> here = bits(row);
  Word kept = ~Word{0} << (from % word_bits);
  for (auto w = static_cast<std::size_t>(from / word_bits); w < here.size(); ++w) {
    const Word found = here[w] & among.words()[w] & kept;
    if (found != 0) return static_cast<Index>(w) * word_bits + std::countr_zero(found);
    kept = ~Word{0};
  }
  return cols_;
}

AllowedPairs AllowedPairs::simplified() && {
  if (in_runs()) return std::move(*this);
  PooledVector<Word> any(static_cast<std::size_t>(row_words_), 0);
  for (Index i = 0; i < rows_; ++i) {
    for (std::size_t w = 0; w < any.size(); ++w) any[w] |= bits(i)[w];
  }
  PooledVector<std::uint8_t> open(static_cast<std::size_t>(cols_));
  PooledVector<Index> open_before(open.size() + 1, 0);
  for (std::size_t j = 0; j < open.size(); ++j) {
    open[j] = (any[j / word_bits] >> (j % word_bits)) & 1U;
    open_before[j + 1] = open_before[j] + open[j];
  }
  PooledVector<Index> begin(static_cast<std::size_t>(rows_), 0);
  PooledVector<Index> end(begin.size(), 0);
  Index least_begin = 0;
  Index least_end = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    const std::span<const Word> row = bits(static_cast<Index>(i));
    Index count = 0;
    for (std::size_t w = 0; w < row.size(); ++w) {
      if (row[w] == 0) continue;
      if (count == 0) begin[i] = static_cast<Index>(w) * word_bits + std::countr_zero(row[w]);
      end[i] = (static_cast<Index>(w) + 1) * word_bits - std::countl_zero(row[w]);
      count += std::popcount(row[w]);
    }
    if (count == 0) continue;
    const Index in_run = open_before[static_cast<std::size_t>(end[i])] -
                         open_before[static_cast<std::size_t>(begin[i])];
    if (count != in_run || begin[i] < least_begin || end[i] < least_end) return std::move(*this);
    least_begin = begin[i];
    least_end = end[i];
  }
  return from_runs(std::move(begin), std::move(end), std::move(open));
}

AllowedPairs AllowedPairs::transposed() const {
  AllowedPairs other;
  other.rows_ = cols_;
  other.cols_ = rows_;
  if (in_runs()) {
    // Column j lies in the rows from the first that ends after j to the last that begins by j.
    other.begin_.resize(open_.size());
    other.end_.resize(open_.size());
    other.open_.resize(begin_.size());
    for (Index i = 0; i < rows_; ++i) {
      other.open_[static_cast<std::size_t>(i)] = run_begin(i) < run_end(i) ? 1 : 0;
    }
    Index first = 0;
    Index last = 0;
    for (std::size_t at = 0; at < open_.size(); ++at) {
      const auto col = static_cast<Index>(at);
      while (first < rows_ && run_end(first) <= col) ++first;
      while (last < rows_ && run_begin(last) <= col) ++last;
      other.begin_[at] = first;
      other.end_[at] = open_[at] != 0 ? std::max(first, last) : first;
    }
    return other;
  }
  other.row_words_ = words_of(rows_);
  other.bits_.assign(static_cast<std::size_t>(cols_ * other.row_words_), 0);
  std::array<Word, 64> block{};
  for (Index row0 = 0; row0 < rows_; row0 += word_bits) {
    const Index count = std::min(word_bits, rows_ - row0);
    for (Index w = 0; w < row_words_; ++w) {
      block.fill(0);
      for (Index i = 0; i < count; ++i) {
        block[static_cast<std::size_t>(i)] = bits(row0 + i)[static_cast<std::size_t>(w)];
      }
      transpose(block);
      const Index cols = std::min(word_bits, cols_ - w * word_bits);
      for (Index j = 0; j < cols; ++j) {
        other.bits_[static_cast<std::size_t>((w * word_bits + j) * other.row_words_ +
                                             row0 / word_bits)] =
            block[static_cast<std::size_t>(j)];
      }
    }
  }
  return other;
}

// The pairs if whole lines are all that is forbidden, which counts show without a bit for each
// pair. The same runs as `simplified` finds.
template <class T>
std::optional<AllowedPairs> pairs_of_lines(const Scores<T>& scores) {
  if (!scores.band().whole()) return std::nullopt;
  const AllowedCounts counts = scores.allowed_counts();
  PooledVector<std::uint8_t> open;
  for (const Index queries : counts.queries_of_key) open.push_back(queries > 0 ? 1 : 0);
  const auto first = std::find(open.begin(), open.end(), 1) - open.begin();
  const auto last = open.rend() - std::find(open.rbegin(), open.rend(), 1);
  const Index keys = std::count(open.begin(), open.end(), 1);
  PooledVector<Index> begin, end;
  for (const Index of_query : counts.keys_of_query) {
    if (of_query != 0 && of_query != keys) return std::nullopt;
    begin.push_back(of_query == 0 ? 0 : first);
    end.push_back(of_query == 0 ? 0 : last);
  }
  return AllowedPairs::from_runs(std::move(begin), std::move(end), std::move(open));
}

template <class T>
AllowedPairs allowed_pairs(const Scores<T>& scores, int threads) {
  const Index rows = scores.rows();
  const Index cols = scores.cols();
  if (scores.rows_alike()) {
    PooledVector<Index> begin(static_cast<std::size_t>(rows));
    PooledVector<Index> end(begin.size());
    for (Index i = 0; i < rows; ++i) {
      begin[static_cast<std::size_t>(i)] = scores.band().begin(i);
      end[static_cast<std::size_t>(i)] = scores.band().end(i);
    }
    return AllowedPairs::from_runs(std::move(begin), std::move(end), scores.open_keys());
  }
  constexpr Index tile_rows = 64;
  constexpr Index tile_cols = 16 * word_bits;
  struct Workspace {
    typename Scores<T>::Scratch scratch;
    Buffer<std::uint8_t> may;
  };
  PooledVector<Workspace> workspaces(static_cast<std::size_t>(std::max(threads, 1)));
  const Index panels = (rows + tile_rows - 1) / tile_rows;
  const auto share = RankShare::of_held_rows(panels);
  if (share.divided()) {
    if (auto lines = pairs_of_lines(scores)) return *std::move(lines);
  }
  const Index row_words = words_of(cols);
  PooledVector<Word> words(static_cast<std::size_t>(rows * row_words), 0);
  parallel_for(share.own_count(), threads, [&](Index n, int worker) {
    Workspace& own = workspaces[static_cast<std::size_t>(worker)];
    own.may.reserve(tile_rows * tile_cols);
    const Index row0 = share.own_item(n) * tile_rows;
    for (Index col0 = 0; col0 < cols; col0 += tile_cols) {
      const TileRange range{row0, std::min(tile_rows, rows - row0), col0,
                            std::min(tile_cols, cols - col0)};
      if (scores.empty(range)) continue;
      const MatrixView<std::uint8_t> may(own.may.data(), range.rows, range.cols);
      scores.allowed(range, may, own.scratch);
      for (Index i = 0; i < range.rows; ++i) {
        Word* row = words.data() + (row0 + i) * row_words + col0 / word_bits;
        for (Index j = 0; j < range.cols; ++j) {
          row[j / word_bits] |= Word{may(i, j)} << (j % word_bits);
        }
      }
    }
  });
  share.complete_numbers(
      std::span(words), [&](Index panel) { return std::min(rows, panel * tile_rows) * row_words; });
  return AllowedPairs::from_bits(rows, cols, std::move(words)).simplified();
}

template <class T>
std::int64_t allowed_pairs_bytes(const Scores<T>& scores) {
  if (scores.rows_alike()) {
    return 2 * scores.rows() * static_cast<Index>(sizeof(Index)) + scores.cols();
  }
  return scores.rows() * words_of(scores.cols()) * static_cast<Index>(sizeof(Word));
}

template AllowedPairs allowed_pairs(const Scores<float>&, int);
template AllowedPairs allowed_pairs(const Scores<double>&, int);
template std::int64_t allowed_pairs_bytes(const Scores<float>&);
template std::int64_t allowed_pairs_bytes(const Scores<double>&);

}  // namespace attn
