#include "plan/head_forward.hpp"

#include <algorithm>
#include <span>

#include "pass/output.hpp"
#include "plan/dense_weights.hpp"
#include "scheme/scheme_description.hpp"

namespace attn {
namespace {

// The own numbers of a problem, `count` of them from `first` on.
PooledVector<double> own_numbers(const TensorView<const double>& from, Index problem, Index first,
                                 Index count) {
  if (from.data == nullptr) return {};
  const double* const start = from.data + problem * from.shape.back() + first;
  return PooledVector<double>(start, start + count);
}

template <class View>
void require_view(const char* name, const View& view, const Shape& expected,
                  bool has_strides = false) {
  if (view.shape == expected) {
    return has_strides ? require_strides(name, expected, view.strides)
                       : require_dense(name, expected, view.strides);
  }
  throw Error(Failure::input, std::string(name) + " has shape " + to_string(view.shape) +
                                  ", expected " + to_string(expected));
}

template <class T>
MatrixView<T> block_of(const TensorView<T>& view, Index problem, Index rows, Index cols) {
  if (view.data == nullptr) return {nullptr, rows, cols};
  if (view.strides.empty()) return {view.data + problem * rows * cols, rows, cols};
  const Shape leading = leading_axes(view.shape, 2);
  return {view.data + block_offset(problem, leading, view.strides), rows, cols,
          rows > 1 ? view.strides[leading.size()] : cols};
}

// The numbers of a problem, by query or by key.
std::span<double> row_of(const TensorView<double>& view, Index problem) {
  if (view.data == nullptr) return {};
  const Index length = view.shape.back();
  return {view.data + problem * length, static_cast<std::size_t>(length)};
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
  const Shape by_query = join(layout.leading, {layout.queries});
  const Shape by_key = join(layout.leading, {layout.keys});
  if (outputs.out) {
    require_view("out", outputs.out, join(by_query, {layout.v_head_dim}), true);
    require_places("out", outputs.out.shape, outputs.out.strides);
  }
  require("row_potential", outputs.row_potential, by_query);
  require("unas_row_potential", outputs.unas_row_potential, by_query);
  require("col_potential", outputs.col_potential, by_key);
  require("col_sum", outputs.col_sum, by_key);
  require("row_entropy", outputs.row_entropy, by_query);
  require("weights", outputs.weights, join(by_query, {layout.keys}));
  const bool of_mixture = outputs.variance || outputs.prior;
  if ((outputs.centre || of_mixture) && !layout.repetition) {
    throw Error(Failure::usage, "centre, variance and prior require a repetition");
  }
  if (of_mixture && layout.scheme.scheme != Scheme::dnas) {
    throw Error(Failure::usage, "variance and prior require the scheme dnas");
  }
  require("centre", outputs.centre, join(by_query, {layout.depth}));
  require("variance", outputs.variance, by_query);
  require("prior", outputs.prior, by_query);
}

template <class T>
void attend_planned(const AttentionLayout& layout, const AttentionOutputs<T>& outputs,
                    bool differentiated, HeadWork<T>& head, int threads) {
  const Index problem = head.head->problem;
  HeadTargets<T> targets;
  targets.out = block_of(outputs.out, problem, layout.queries, layout.v_head_dim);
  targets.row_potential = row_of(outputs.row_potential, problem);
  targets.unas_row_potential = row_of(outputs.unas_row_potential, problem);
  targets.col_potential = row_of(outputs.col_potential, problem);
  targets.col_sum = row_of(outputs.col_sum, problem);
  targets.row_entropy = row_of(outputs.row_entropy, problem);
  targets.centre = block_of(outputs.centre, problem, layout.queries, layout.depth);
  targets.variance = row_of(outputs.variance, problem);
  targets.prior = row_of(outputs.prior, problem);
  const MatrixView<T> weights = block_of(outputs.weights, problem, layout.queries, layout.keys);
  set_to_zero(weights);
  DenseWeights<T> own_weights(by_pair(weights, head.head->part.range));
  if (outputs.weights) targets.weights = &own_weights;
  attend_head(head, targets, differentiated, threads);
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
  const auto require = [](const char* name, const auto& view, const Shape& expected,
                          bool has_strides = false) {
    require_view(name, view, expected, has_strides);
    if (view.data != nullptr || element_count(expected) == 0) return;
    throw Error(Failure::input, std::string(name) + " has no data");
  };
  const Shape by_query = join(layout.leading, {layout.queries});
  require("out", results.out, join(by_query, {layout.v_head_dim}), true);
  require("row_potential", results.row_potential, by_query);
  require("col_potential", results.col_potential, join(layout.leading, {layout.keys}));
  if (scheme.is_mixture()) require("unas_row_potential", results.unas_row_potential, by_query);
}

template <class T>
void take_results(const AttentionLayout& layout, const AttentionResults<T>& results,
                  HeadWork<T>& work) {
  const Index problem = work.head->problem;
  const TileRange& own = work.head->part.range;
  const MatrixView<const T> out =
      by_query(block_of(results.out, problem, layout.queries, layout.v_head_dim), own);
  work.out = {const_cast<T*>(out.data), out.rows, out.cols, out.row_stride};
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
  return {scheme.status,
          scheme.iterations,
          scheme.column_error,
          allowed.empty_queries(),
          allowed.empty_keys(),
          layout.queries - work.head->part.queries(),
          layout.keys - work.head->part.keys(),
          log_likelihoods_of<T>(work)};
}

template <class T>
std::int64_t attend_head_bytes(const AttentionLayout& layout, bool differentiated, int threads) {
  const Index queries = layout.queries;
  const Index keys = layout.keys;
  std::int64_t bytes = attend_bytes(layout.scheme.scheme, queries, keys, sizeof(T), threads) +
                       std::min(layout.scheme.kept_bytes,
                                useful_attend_bytes(layout.scheme, queries, keys, sizeof(T)));
  if (layout.v) {
    bytes +=
        output_bytes(layout.scheme.scheme, queries, keys, layout.v_head_dim, sizeof(T), threads);
    // Scaled copies of values far from 1.
    bytes += keys * layout.v_head_dim * static_cast<Index>(sizeof(T));
  }
  if (differentiated) bytes += queries * layout.v_head_dim * static_cast<Index>(sizeof(T));
  // Log-priors.
  bytes += std::max(queries, keys) * static_cast<Index>(sizeof(T));
  if (layout.repetition) {
    bytes += repeated_scores_bytes(layout.recipe(), layout.scheme.scheme, layout.sizes(),
                                   differentiated ? layout.repetition->iterations : 1, sizeof(T),
                                   threads);
  }
  return bytes;
}

#define ATTN_FOR_TYPE(T)                                                                        \
  template void require_outputs(const AttentionLayout&, const AttentionOutputs<T>&);            \
  template void attend_planned(const AttentionLayout&, const AttentionOutputs<T>&, bool,        \
                               HeadWork<T>&, int);                                              \
  template void require_results(const AttentionLayout&, const AttentionResults<T>&);            \
  template void take_results(const AttentionLayout&, const AttentionResults<T>&, HeadWork<T>&); \
  template ProblemSummary summary_of(const AttentionLayout&, const HeadWork<T>&);               \
  template std::int64_t attend_head_bytes<T>(const AttentionLayout&, bool, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
