#include "sinkhorn_iter/upstream.hpp"

#include <cmath>

namespace attn::tools {
namespace {

constexpr const char* of_plan = "grad_plan";
constexpr const char* of_row = "grad_row_potential";
constexpr const char* of_col = "grad_col_potential";

}  // namespace

UpstreamInput::UpstreamInput(const io::InputBundle& bundle, const Shape& leading, Index queries,
                             Index keys) {
  if (bundle.has(of_plan)) {
    require_floating(bundle.dataset(of_plan));
    plan = matrix_operand(bundle, of_plan, leading, queries, keys);
    plan->finite = true;
  }
  if (bundle.has(of_row)) row = vector_operand(bundle.dataset(of_row), leading, false, queries);
  if (bundle.has(of_col)) col = vector_operand(bundle.dataset(of_col), leading, false, keys);
}

bool UpstreamInput::is_in(const io::InputBundle& bundle) {
  return bundle.has(of_plan) || bundle.has(of_row) || bundle.has(of_col);
}

std::vector<io::InputDataset> UpstreamInput::datasets() const {
  std::vector<io::InputDataset> all;
  for (const auto* operand : {&plan, &row, &col}) {
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
