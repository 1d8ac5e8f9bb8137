#include "plan/head_forward.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "pass/output.hpp"
#include "plan/dense_weights.hpp"
#include "scheme/scheme_description.hpp"
#include "stats/observers.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

// Writes the own numbers of a problem from `first` on, and `padding` around them.
void copy_row(std::span<const double> from, Index first, double padding,
              const TensorView<double>& to, Index problem) {
  if (to.data == nullptr) return;
  const Index length = to.shape.back();
  double* const row = to.data + problem * length;
  std::fill_n(row, first, padding);
  double* const end = std::copy(from.begin(), from.end(), row + first);
  std::fill(end, row + length, padding);
}

// The own numbers of a problem, `count` of them from `first` on.
PooledVector<double> own_numbers(const TensorView<const double>& from, Index problem, Index first,
                                 Index count) {
  if (from.data == nullptr) return {};
  const double* const start = from.data + problem * from.shape.back() + first;
  return PooledVector<double>(start, start + count);
}

template <class View>
void require_view(const char* name, const View& view, const Shape& expected) {
  if (view.shape == expected) return;
  throw Error(Failure::input, std::string(name) + " has shape " + to_string(view.shape) +
                                  ", expected " + to_string(expected));
}

template <class T>
MatrixView<T> block_of(const TensorView<T>& view, Index problem, Index rows, Index cols) {
  return {view.data == nullptr ? nullptr : view.data + problem * rows * cols, rows, cols};
}

// Writes what repeated attention ends with.
template <class T>
void copy_repeated(const RepeatedScores<T>& repeated, const TileRange& own,
                   const AttentionOutputs<T>& outputs, Index problem) {
  if (outputs.centre) {
    const Index queries = outputs.centre.shape[outputs.centre.shape.size() - 2];
    const MatrixView<double> all =
        block_of(outputs.centre, problem, queries, outputs.centre.shape.back());
    set_to_zero(all);
    const Buffer<double> centres = repeated.queries();
    std::copy(centres.begin(), centres.end(), by_query(all, own).data);
  }
  if (!outputs.variance && !outputs.prior) return;
  const Mixture& mixture = repeated.mixture();
  copy_row(mixture.variance, own.row0, 0, outputs.variance, problem);
  PooledVector<double> priors = mixture.log_prior;
  for (double& prior : priors) prior = std::exp(prior);
  copy_row(priors, own.row0, 0, outputs.prior, problem);
}

}  // namespace

template <class T>
void require_outputs(const AttentionLayout& layout, const AttentionOutputs<T>& outputs) {
  const auto require = [](const char* name, const auto& view, const Shape& expected) {
    if (view.data != nullptr) require_view(name, view, expected);
  };
  if (outputs.out && !layout.v) throw Error(Failure::usage, "there is no v to make out of");
  if (outputs.unas_row_potential && !description_of(layout.scheme.scheme).is_mixture()) {
    throw Error(Failure::usage, "unas_row_potential requires the scheme hnas");
  }
  const Shape by_query = join(layout.leading, {layout.queries()});
  const Shape by_key = join(layout.leading, {layout.keys()});
  require("out", outputs.out, join(by_query, {layout.v_head_dim}));
  require("row_potential", outputs.row_potential, by_query);
  require("unas_row_potential", outputs.unas_row_potential, by_query);
  require("col_potential", outputs.col_potential, by_key);
  require("col_sum", outputs.col_sum, by_key);
  require("row_entropy", outputs.row_entropy, by_query);
  require("weights", outputs.weights, join(by_query, {layout.keys()}));
  const bool of_mixture = outputs.variance || outputs.prior;
  if ((outputs.centre || of_mixture) && !layout.repetition) {
    throw Error(Failure::usage, "centre, variance and prior require a repetition");
  }
  if (of_mixture && layout.scheme.scheme != Scheme::dnas) {
    throw Error(Failure::usage, "variance and prior require the scheme dnas");
  }
  require("centre", outputs.centre, join(by_query, {layout.sizes.q_depth}));
  require("variance", outputs.variance, by_query);
  require("prior", outputs.prior, by_query);
}

template <class T>
void attend_head(const AttentionLayout& layout, const AttentionOutputs<T>& outputs, bool needs_out,
                 HeadWork<T>& work, int threads) {
  const Index problem = work.head.arrays.problem;
  const TileRange& own = work.part.range;
  ObserverList<T> observers;
  const MatrixView<T> all_out = block_of(outputs.out, problem, layout.queries(), layout.v_head_dim);
  if (own.rows < layout.queries()) set_to_zero(all_out);
  work.out = by_query(all_out, own);
  if (needs_out && work.out.data == nullptr) {
    work.out_storage = Buffer<T>(own.rows * layout.v_head_dim);
    work.out = {work.out_storage.data(), own.rows, layout.v_head_dim};
  }
  std::optional<Output<T>> output;
  if (work.out.data != nullptr) {
    output.emplace(work.head.arrays.v, work.out, work.dropout);
    observers.push_back(&*output);
  }
  ColumnSums<T> sums;
  if (outputs.col_sum) observers.push_back(&sums);
  RowEntropy<T> entropy;
  if (outputs.row_entropy) observers.push_back(&entropy);
  const MatrixView<T> all_weights =
      block_of(outputs.weights, problem, layout.queries(), layout.keys());
  set_to_zero(all_weights);
  DenseWeights<T> weights(by_pair(all_weights, own));
  if (outputs.weights) observers.push_back(&weights);
  if (layout.repetition) {
    work.repeated.emplace(layout.recipe, work.head.arrays, work.scheme, *layout.repetition,
                          needs_out, threads);
  } else {
    work.plain.emplace(layout.recipe, work.head.arrays, threads);
  }
  work.attention = attend(work.scores(), work.scheme, observers, threads);
  if (work.repeated) {
    work.attention.summary.iterations = layout.repetition->iterations;
    copy_repeated(*work.repeated, own, outputs, problem);
  }
  if (outputs.col_sum) copy_row(sums.values(), own.col0, 0, outputs.col_sum, problem);
  if (outputs.row_entropy) {
    PooledVector<double> entropies = entropy.values();
    add_sink_entropies(sink_weights(work.attention.potentials, work.scheme), entropies);
    copy_row(entropies, own.row0, 0, outputs.row_entropy, problem);
  }
  const Potentials& potentials = work.attention.potentials;
  copy_row(potentials.row, own.row0, minus_infinity, outputs.row_potential, problem);
  copy_row(potentials.col, own.col0, minus_infinity, outputs.col_potential, problem);
  copy_row(potentials.unas_row, own.row0, minus_infinity, outputs.unas_row_potential, problem);
}

template <class T>
void require_results(const AttentionLayout& layout, const AttentionResults<T>& results) {
  const SchemeDescription& scheme = description_of(layout.scheme.scheme);
  if (scheme.is_iterated()) {
    throw Error(Failure::usage, "the gradients of sinkhorn need all of its iterations");
  }
  if (layout.repetition) {
    throw Error(Failure::usage, "the gradients of repeated attention need every time of it");
  }
  if (layout.gate) throw Error(Failure::usage, "gradients with a gate need out before the gate");
  const auto require = [](const char* name, const auto& view, const Shape& expected) {
    require_view(name, view, expected);
    if (view.data != nullptr || element_count(expected) == 0) return;
    throw Error(Failure::input, std::string(name) + " has no data");
  };
  const Shape by_query = join(layout.leading, {layout.queries()});
  require("out", results.out, join(by_query, {layout.v_head_dim}));
  require("row_potential", results.row_potential, by_query);
  require("col_potential", results.col_potential, join(layout.leading, {layout.keys()}));
  if (scheme.is_mixture()) require("unas_row_potential", results.unas_row_potential, by_query);
}

template <class T>
void take_results(const AttentionLayout& layout, const AttentionResults<T>& results,
                  HeadWork<T>& work, int threads) {
  const Index problem = work.head.arrays.problem;
  const TileRange& own = work.part.range;
  const MatrixView<const T> out =
      by_query(block_of(results.out, problem, layout.queries(), layout.v_head_dim), own);
  work.out = {const_cast<T*>(out.data), out.rows, out.cols, out.row_stride};
  work.plain.emplace(layout.recipe, work.head.arrays, threads);
  work.attention.allowed = work.scores().allowed_counts();
  Potentials& potentials = work.attention.potentials;
  potentials.row = own_numbers(results.row_potential, problem, own.row0, own.rows);
  potentials.col = own_numbers(results.col_potential, problem, own.col0, own.cols);
  potentials.unas_row = own_numbers(results.unas_row_potential, problem, own.row0, own.rows);
}

template <class T>
ProblemSummary summary_of(const AttentionLayout& layout, const HeadWork<T>& work) {
  const SchemeSummary& scheme = work.attention.summary;
  const AllowedCounts& allowed = work.attention.allowed;
  return {
      scheme.status,
      scheme.iterations,
      scheme.column_error,
      allowed.empty_queries(),
      allowed.empty_keys(),
      layout.queries() - work.part.queries(),
      layout.keys() - work.part.keys(),
      log_likelihoods_of(layout.recipe, work.head.arrays, work.scores(),
                         work.repeated ? &*work.repeated : nullptr, work.scheme, work.attention)};
}

template <class T>
std::int64_t attend_head_bytes(const AttentionLayout& layout, bool needs_out, int threads) {
  const Index queries = layout.queries();
  const Index keys = layout.keys();
  std::int64_t bytes = attend_bytes(layout.scheme.scheme, queries, keys, sizeof(T), threads) +
                       std::min(layout.scheme.kept_bytes,
                                useful_attend_bytes(layout.scheme, queries, keys, sizeof(T)));
  if (layout.v) {
    bytes +=
        output_bytes(layout.scheme.scheme, queries, keys, layout.v_head_dim, sizeof(T), threads);
    // Values far from 1 are scaled.
    bytes += keys * layout.v_head_dim * static_cast<Index>(sizeof(T));
  }
  if (needs_out) bytes += queries * layout.v_head_dim * static_cast<Index>(sizeof(T));
  // Log-priors.
  bytes += std::max(queries, keys) * static_cast<Index>(sizeof(T));
  if (layout.repetition) {
    bytes +=
        repeated_scores_bytes(layout.recipe, layout.scheme.scheme, layout.sizes,
                              needs_out ? layout.repetition->iterations : 1, sizeof(T), threads);
  }
  return bytes;
}

#define ATTN_FOR_TYPE(T)                                                                       \
  template void require_outputs(const AttentionLayout&, const AttentionOutputs<T>&);           \
  template void attend_head(const AttentionLayout&, const AttentionOutputs<T>&, bool,          \
                            HeadWork<T>&, int);                                                \
  template void require_results(const AttentionLayout&, const AttentionResults<T>&);           \
  template void take_results(const AttentionLayout&, const AttentionResults<T>&, HeadWork<T>&, \
                             int);                                                             \
  template ProblemSummary summary_of(const AttentionLayout&, const HeadWork<T>&);              \
  template std::int64_t attend_head_bytes<T>(const AttentionLayout&, bool, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
