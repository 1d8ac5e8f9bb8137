#include "feasibility/residual.hpp"

namespace attn {

Arcs::Arcs(Index lines, std::span<const Pair> pairs)
    : first_(static_cast<std::size_t>(lines) + 1, 0), to_(pairs.size()) {
  for (const auto& [from, to] : pairs) ++first_[static_cast<std::size_t>(from) + 1];
  for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  PooledVector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (const auto& [from, to] : pairs) to_[next[static_cast<std::size_t>(from)]++] = to;
}

ResidualSearch::ResidualSearch(const AllowedPairs& pairs, const Arcs& back)
    : pairs_(pairs),
      back_(back),
      visited_(static_cast<std::size_t>(pairs.rows() + pairs.cols()), false),
      cols_(pairs.open_cols()) {}

void ResidualSearch::take_out(Line line) {
  visited_[static_cast<std::size_t>(line)] = true;
  if (line >= pairs_.rows()) cols_.remove(line - pairs_.rows());
}

bool ResidualSearch::enter(Line line) {
  if (visited_[static_cast<std::size_t>(line)]) return false;
  take_out(line);
  path_.push_back({line, 0});
  return true;
}

ResidualSearch::Line ResidualSearch::next() {
  Place& here = path_.back();
  if (here.line < pairs_.rows()) {
    const Index col = pairs_.next(here.line, here.cursor, cols_);
    here.cursor = col;
    return col < pairs_.cols() ? pairs_.rows() + col : -1;
  }
  const std::span<const Index> rows = back_.from(here.line - pairs_.rows());
  while (here.cursor < static_cast<Index>(rows.size())) {
    const Index row = rows[static_cast<std::size_t>(here.cursor++)];
    if (!visited_[static_cast<std::size_t>(row)]) return row;
  }
  return -1;
}

}  // namespace attn
