#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "attn_view/view_task.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"

namespace attn::tools {

/// Which keys count as explained away.
struct FigureOptions {
  double epsilon = 0;
  std::optional<Index> min_queries;  ///< by default usual_min_queries
};

/// The statistics of one head under one scheme, as explain-away-stats has them. Figures of nothing
/// are NaN.
struct SchemeFigures {
  std::vector<double> col_sum;      ///< (Lk)
  std::vector<double> row_entropy;  ///< (Lq)
  double share_ignored = 0;         ///< of the keys with enough queries, those below epsilon
  double least = 0;                 ///< the least column sum of these keys
  double least_per_query = 0;       ///< the least c_j/n_j of these keys
  double entropy = 0;               ///< the mean over the queries with an allowed key
  double first_key_share = 0;
  double sink_share = 0;
};

struct HeadFigures {
  std::vector<Index> queries_of_key;  ///< (Lk), 0 for masked keys and padding
  Index min_queries = 1;
  std::array<SchemeFigures, view_schemes.size()> schemes;
};

/// Computes the figures of the heads of a task, and hands them to `keep` in order.
void find_figures(const cli::Arguments& arguments, const ViewTask& task,
                  const FigureOptions& options,
                  const std::function<void(Index problem, const HeadFigures& figures)>& keep,
                  cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
