#include "sinkhorn_iter/upstream.hpp"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

constexpr const char* of_plan = "grad_plan";
constexpr const char* of_row = "grad_row_potential";
constexpr const char* of_col = "grad_col_potential";
constexpr const char* of_masses = "grad_barycentre";

// (…, length), or with `lines` (…, lines, length).
std::optional<Operand> upstream_operand(const io::InputBundle& bundle, const char* name,
                                        const Shape& leading, std::optional<Index> lines,
                                        Index length) {
  if (!bundle.has(name)) return std::nullopt;
  const ArraySource dataset = bundle.dataset(name);
  if (!lines) return vector_operand(dataset, leading, false, length);
  const std::string expected = fmt::format("(..., {}, {})", *lines, length);
  require_vectors(dataset, expected.c_str());
  Operand found = vectors_operand(dataset, leading, false, HeadLayout::heads_first);
  if (found.rows == *lines && found.cols == length) return found;
  throw Error(Failure::input, fmt::format("{} has shape {}, expected {}", dataset.address(),
                                          to_string(dataset.shape()), expected));
}

// `count` numbers of each line of a problem from `first` on; empty without an operand.
std::vector<double> read_upstream(const std::optional<Operand>& operand, Index problem, Index first,
                                  Index count) {
  if (!operand) return {};
  const BlockAxes axes(*operand, operand->block(problem), 0, operand->rows, first, count);
  std::vector<double> values(static_cast<std::size_t>(operand->rows * count));
  operand->dataset.read(axes.start, axes.count, values.data());
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (std::isfinite(values[n])) continue;
    refuse_element(operand->dataset, axes.start, axes.count, static_cast<Index>(n), values[n],
                   "finite numbers");
  }
  return values;
}

}  // namespace

std::optional<UpstreamInput> UpstreamInput::read(const io::InputBundle& bundle,
                                                 const Shape& leading, Index queries, Index keys,
                                                 std::optional<Index> histograms,
                                                 bool of_divergence) {
  UpstreamInput found;
  if (bundle.has(of_plan) && !of_divergence) {
    require_floating(bundle.dataset(of_plan));
    found.plan = matrix_operand(bundle.dataset(of_plan), leading, queries, keys);
    found.plan->finite = true;
  }
  found.row = upstream_operand(bundle, of_row, leading, histograms, queries);
  found.col = upstream_operand(bundle, of_col, leading, histograms, keys);
  if (histograms) {
    found.masses = upstream_operand(bundle, of_masses, leading, std::nullopt, queries);
  }
  if (of_divergence) {
    found.row_self =
        upstream_operand(bundle, "grad_row_self_potential", leading, std::nullopt, queries);
    found.col_self =
        upstream_operand(bundle, "grad_col_self_potential", leading, std::nullopt, keys);
  }
  if (found.datasets().empty()) return std::nullopt;
  return found;
}

std::vector<ArraySource> UpstreamInput::datasets() const {
  std::vector<ArraySource> all;
  for (const auto* operand : {&plan, &row, &col, &masses, &row_self, &col_self}) {
    if (*operand) all.push_back((*operand)->dataset);
  }
  return all;
}

template <class T>
OwnUpstream<T>::OwnUpstream(const std::optional<UpstreamInput>& from, const Head<T>& head,
                            std::int64_t dense_limit) {
  if (!from) return;
  const TileRange& own = head.part.range;
  if (from->plan) plan = matrix_source<T>(*from->plan, head.problem, own, dense_limit);
  row = read_upstream(from->row, head.problem, own.row0, own.rows);
  col = read_upstream(from->col, head.problem, own.col0, own.cols);
  masses = read_upstream(from->masses, head.problem, own.row0, own.rows);
  row_self = read_upstream(from->row_self, head.problem, own.row0, own.rows);
  col_self = read_upstream(from->col_self, head.problem, own.col0, own.cols);
}

template struct OwnUpstream<float>;
template struct OwnUpstream<double>;

}  // namespace attn::tools
