#include "sinkhorn_iter/upstream.hpp"

#include <cmath>

namespace attn::tools {
namespace {

constexpr const char* of_plan = "grad_plan";
constexpr const char* of_row = "grad_row_potential";
constexpr const char* of_col = "grad_col_potential";
constexpr const char* of_masses = "grad_barycentre";

std::optional<Operand> upstream_vector(const io::InputBundle& bundle, const char* name,
                                       const Shape& leading, Index length) {
  if (!bundle.has(name)) return std::nullopt;
  return vector_operand(bundle.dataset(name), leading, false, length);
}

}  // namespace

std::optional<UpstreamInput> UpstreamInput::of_transport(const io::InputBundle& bundle,
                                                         const Shape& leading, Index queries,
                                                         Index keys) {
  UpstreamInput found;
  if (bundle.has(of_plan)) {
    require_floating(bundle.dataset(of_plan));
    found.plan = matrix_operand(bundle, of_plan, leading, queries, keys);
    found.plan->finite = true;
  }
  found.row = upstream_vector(bundle, of_row, leading, queries);
  found.col = upstream_vector(bundle, of_col, leading, keys);
  if (found.datasets().empty()) return std::nullopt;
  return found;
}

std::optional<UpstreamInput> UpstreamInput::of_barycentre(const io::InputBundle& bundle,
                                                          const Shape& leading, Index queries) {
  UpstreamInput found;
  found.masses = upstream_vector(bundle, of_masses, leading, queries);
  if (!found.masses) return std::nullopt;
  return found;
}

std::vector<io::InputDataset> UpstreamInput::datasets() const {
  std::vector<io::InputDataset> all;
  for (const auto* operand : {&plan, &row, &col, &masses}) {
    if (*operand) all.push_back((*operand)->dataset);
  }
  return all;
}

std::vector<double> read_upstream(const std::optional<Operand>& operand, Index problem, Index first,
                                  Index count) {
  if (!operand) return {};
  std::vector<double> values(static_cast<std::size_t>(count));
  const BlockAxes axes(*operand, operand->block(problem), 0, 1, first, count);
  operand->dataset.read(axes.start, axes.count, values.data());
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (std::isfinite(values[n])) continue;
    refuse_element(operand->dataset, axes.start, axes.count, static_cast<Index>(n), values[n],
                   "finite numbers");
  }
  return values;
}

}  // namespace attn::tools
