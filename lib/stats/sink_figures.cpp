#include "stats/sink_figures.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/factor.hpp"
#include "parallel/parallel_for.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn {
namespace {

template <class T>
double norm_of(const T* row, Index count) {
  double sum = 0;
  for (Index n = 0; n < count; ++n)
    sum += static_cast<double>(row[n]) * static_cast<double>(row[n]);
  return std::sqrt(sum);
}

}  // namespace

void add_head(const SinkFigures& more, std::optional<SinkFigures>& all) {
  if (!all) {
    all = more;
    return;
  }
  all->attention += more.attention;
  all->keys += more.keys;
  all->other_keys += more.other_keys;
  all->norms += more.norms;
  all->other_norms += more.other_norms;
  all->stable_rank = all->stable_rank_without = SinkFigures::unknown;
  all->largest_score = std::fmax(all->largest_score, more.largest_score);
}

std::vector<Index> first_open_keys(std::span<const Index> queries_of_key, Index count) {
  std::vector<Index> keys;
  for (std::size_t j = 0; j < queries_of_key.size() && std::ssize(keys) < count; ++j) {
    if (queries_of_key[j] > 0) keys.push_back(static_cast<Index>(j));
  }
  return keys;
}

template <class T>
SinkOutputs<T>::SinkOutputs(MatrixView<const T> v, Index queries, std::span<const Index> sinks)
    : v_(v),
      sinks_(sinks),
      without_values_(v.rows * v.cols),
      out_storage_(queries * v.cols),
      without_storage_(queries * v.cols),
      out_(out_storage_.data(), queries, v.cols),
      without_(without_storage_.data(), queries, v.cols),
      output_(v, out_),
      without_output_({without_values_.data(), v.rows, v.cols}, without_) {
  for (Index j = 0; j < v.rows; ++j) {
    std::copy_n(v.row(j), v.cols, without_values_.data() + j * v.cols);
  }
  for (const Index j : sinks) std::fill_n(without_values_.data() + j * v.cols, v.cols, T{0});
}

template <class T>
SinkFigures SinkOutputs<T>::figures(std::span<const Index> queries_of_key) const {
  SinkFigures figures;
  for (Index j = 0; j < v_.rows; ++j) {
    if (queries_of_key[static_cast<std::size_t>(j)] == 0) continue;
    const bool is_sink = std::binary_search(sinks_.begin(), sinks_.end(), j);
    (is_sink ? figures.norms : figures.other_norms) += norm_of(v_.row(j), v_.cols);
  }
  figures.stable_rank = attn::stable_rank<T>(out_);
  figures.stable_rank_without = attn::stable_rank<T>(without_);
  return figures;
}

template <class T>
std::int64_t SinkOutputs<T>::bytes(const Partition& partition, Index queries, Index keys,
                                   Index depth) {
  const auto numbers = (2 * queries + keys) * depth;
  return numbers * static_cast<std::int64_t>(sizeof(T)) + 2 * Output<T>::bytes(partition, depth);
}

template <class T>
double stable_rank(MatrixView<const T> a) {
  constexpr Index block = 256;
  auto gram = OwnedMatrix<double>::zeros(a.cols, a.cols);
  OwnedMatrix<double> rows(std::min(block, a.rows), a.cols);
  for (Index first = 0; first < a.rows; first += block) {
    const Index count = std::min(block, a.rows - first);
    for (Index i = 0; i < count; ++i) {
      std::copy_n(a.row(first + i), a.cols, rows.row(i));
    }
    kernel::add_gram({rows.data(), count, a.cols}, 1, gram.view());
  }
  double trace = 0;
  for (Index n = 0; n < a.cols; ++n) {
    trace += gram.row(n)[n];
    for (Index m = 0; m < n; ++m) gram.row(m)[n] = gram.row(n)[m];
  }
  return trace > 0 ? trace / kernel::largest_singular_value(gram.read()) : SinkFigures::unknown;
}

template <class T>
double largest_score(const Scores<T>& scores, int threads) {
  constexpr Index tile_rows = 64;
  constexpr Index tile_cols = 512;
  const Index panels = (scores.rows() + tile_rows - 1) / tile_rows;
  struct Worker {
    typename Scores<T>::Scratch scratch;
    Buffer<T> tile{tile_rows * tile_cols};
    double largest = SinkFigures::unknown;
  };
  std::vector<Worker> workers(static_cast<std::size_t>(threads));
  parallel_for(panels, threads, [&](Index panel, int worker) {
    Worker& own = workers[static_cast<std::size_t>(worker)];
    const Index row0 = panel * tile_rows;
    for (Index col0 = 0; col0 < scores.cols(); col0 += tile_cols) {
      const TileRange range{row0, std::min(tile_rows, scores.rows() - row0), col0,
                            std::min(tile_cols, scores.cols() - col0)};
      if (scores.empty(range)) continue;
      scores.fill(range, {own.tile.data(), range.rows, range.cols}, own.scratch);
      for (Index n = 0; n < range.rows * range.cols; ++n) {
        const double score = std::abs(static_cast<double>(own.tile.data()[n]));
        if (std::isfinite(score)) own.largest = std::fmax(own.largest, score);
      }
    }
  });
  double largest = SinkFigures::unknown;
  for (const Worker& worker : workers) largest = std::fmax(largest, worker.largest);
  return largest;
}

#define ATTN_FOR_TYPE(T)                            \
  template class SinkOutputs<T>;                    \
  template double stable_rank(MatrixView<const T>); \
  template double largest_score(const Scores<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
