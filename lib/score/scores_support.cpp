// What may attend to what: Scores::support.

#include <algorithm>
#include <limits>
#include <vector>

#include "score/scores.hpp"

namespace attn {

template <class T>
Support Scores<T>::support() const {
  if (looks_row_by_row()) return support_by_looking();
  const bool looks =
      terms_.bias != nullptr || terms_.mask != nullptr || terms_.preference != nullptr;
  return looks && rows() > 0 ? support_of_one_row() : band_.support();
}

template <class T>
bool Scores<T>::looks_row_by_row() const {
  return terms_.energy->may_forbid() || (terms_.bias != nullptr && !terms_.bias->rows_alike()) ||
         (terms_.mask != nullptr && !terms_.mask->rows_alike()) ||
         (terms_.preference != nullptr && !terms_.preference->rows_alike());
}

// The band of each query less the keys that are forbidden to all.
template <class T>
Support Scores<T>::support_of_one_row() const {
  Support support = band_.support();
  constexpr Index tile_cols = 4096;
  Scratch scratch;
  std::vector<Index> open_before(static_cast<std::size_t>(cols()) + 1, 0);
  for (Index col0 = 0; col0 < cols(); col0 += tile_cols) {
    const TileRange range{0, 1, col0, std::min(tile_cols, cols() - col0)};
    const Read terms = read(range, scratch, false);
    for (Index j = 0; j < range.cols; ++j) {
      const auto at = static_cast<std::size_t>(col0 + j);
      const bool open = allows(terms, 0, j);
      open_before[at + 1] = open_before[at] + (open ? 1 : 0);
      if (!open) support.queries_of_key[at] = 0;
    }
  }
  for (Index i = 0; i < rows(); ++i) {
    support.keys_of_query[static_cast<std::size_t>(i)] =
        open_before[static_cast<std::size_t>(band_.end(i))] -
        open_before[static_cast<std::size_t>(band_.begin(i))];
  }
  return support;
}

template <class T>
Support Scores<T>::support_by_looking() const {
  Support support;
  support.keys_of_query.assign(static_cast<std::size_t>(rows()), 0);
  support.queries_of_key.assign(static_cast<std::size_t>(cols()), 0);
  constexpr Index tile_rows = 64;
  constexpr Index tile_cols = 1024;
  Buffer<T> energy_storage;
  Scratch scratch;
  for (Index row0 = 0; row0 < rows(); row0 += tile_rows) {
    for (Index col0 = 0; col0 < cols(); col0 += tile_cols) {
      const TileRange range{row0, std::min(tile_rows, rows() - row0), col0,
                            std::min(tile_cols, cols() - col0)};
      if (empty(range)) continue;
      const Read terms = read(range, scratch, true);
      if (terms_.energy->may_forbid()) {
        energy_storage.reserve(range.rows * range.cols);
        const MatrixView<T> energy(energy_storage.data(), range.rows, range.cols);
        terms_.energy->fill(range, energy);
        for (Index i = 0; i < range.rows; ++i) {
          for (Index j = 0; j < range.cols; ++j) {
            if (energy(i, j) == -std::numeric_limits<T>::infinity()) terms.mask(i, j) = 0;
          }
        }
      }
      for (Index i = 0; i < range.rows; ++i) {
        for (Index j = 0; j < range.cols; ++j) {
          const Index may = terms.mask(i, j) != 0 ? 1 : 0;
          support.keys_of_query[static_cast<std::size_t>(row0 + i)] += may;
          support.queries_of_key[static_cast<std::size_t>(col0 + j)] += may;
        }
      }
    }
  }
  return support;
}

template Support Scores<float>::support() const;
template Support Scores<double>::support() const;

}  // namespace attn
