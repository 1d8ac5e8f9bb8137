#include "sinkhorn_iter/infeasible.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "sinkhorn/feasible_marginals.hpp"

namespace attn::tools {
namespace {

// The maximum number of rows or columns named in a message.
constexpr std::size_t most_named = 8;

// As a share of the totals: a smaller difference may be rounding of marginals to a shorter type, a
// larger one is a mistake.
constexpr double rounded_share = 1e-2;

// "rows 3, 5, 7 and 20 more".
std::string lines_text(const char* one, const std::vector<Index>& lines) {
  if (lines.size() == 1) return fmt::format("{} {}", one, lines.front());
  const std::size_t shown = std::min(lines.size(), most_named);
  const std::vector<Index> first(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(shown));
  std::string text = fmt::format("{}s {}", one, fmt::join(first, ", "));
  if (shown < lines.size()) text += fmt::format(" and {} more", lines.size() - shown);
  return text;
}

// "rows 1, 2 have mass 2, but the 1 column allowed for them has mass 1".
std::string side_text(const Shortage& side, const char* one, const char* other) {
  return fmt::format(
      "{} {} mass {:.6g}, but the {} allowed for {} {} mass {:.6g}", lines_text(one, side.lines),
      side.lines.size() == 1 ? "has" : "have", side.demand, cli::counted(side.partners, other),
      side.lines.size() == 1 ? "it" : "them", side.partners == 1 ? "has" : "have", side.capacity);
}

std::string shortage_text(const Feasibility& found) {
  // Reports the side with the shorter list.
  if (found.cols.lines.empty() ||
      (!found.rows.lines.empty() && found.rows.lines.size() <= found.cols.lines.size())) {
    return side_text(found.rows, "row", "column");
  }
  return side_text(found.cols, "column", "row");
}

std::string totals_hint(const Feasibility& found) {
  const double apart = std::abs(found.row_total - found.col_total);
  if (apart > rounded_share * std::max(found.row_total, found.col_total)) {
    return "normalise a and b, so that they have the same sum; --iterations T runs exactly T "
           "iterations anyway";
  }
  // Rounding to two digits must not make the tolerance too small.
  return fmt::format("normalise a and b; or --tolerance {:.2g} or larger accepts them as equal",
                     1.1 * apart / tolerated_share);
}

}  // namespace

void refuse_infeasible(const TransportTask& task, TransportResult& result) {
  const Feasibility& found = result.figures.feasibility;
  const std::string place = task.input.place(result.problem);
  switch (found.prospect) {
    case Prospect::total_support:
      return;
    case Prospect::unequal_totals:
      result.refusal =
          fmt::format("{}: no plan has these marginals: {} adds up to {}, {} to {}", place,
                      task.row_address(), found.row_total, task.col_address(), found.col_total);
      result.hint =
          task.exact ? "normalise a and b, so that they have the same sum" : totals_hint(found);
      return;
    case Prospect::no_plan:
      result.refusal =
          fmt::format("{}: no plan has these marginals: {}", place, shortage_text(found));
      if (!task.exact) result.hint = "--iterations T runs exactly T iterations anyway";
      return;
    case Prospect::vanishing:
      break;
  }
  std::vector<std::string> first;
  for (const auto& [i, j] : found.vanishing) {
    if (first.size() == most_named) break;
    first.push_back(fmt::format("[{}, {}]", i, j));
  }
  result.refusal = fmt::format(
      "{}: support without total support: {} allowed entries tend to 0, so no finite potentials "
      "exist: {}{}",
      place, found.vanishing_count, fmt::join(first, ", "),
      static_cast<Index>(first.size()) < found.vanishing_count ? ", ..." : "");
  result.hint = "mask these too, or run exactly T iterations with --iterations T";
}

}  // namespace attn::tools
