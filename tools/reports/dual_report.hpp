#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/stopping.hpp"
#include "cli/command.hpp"
#include "common/frame/section_name.hpp"
#include "common/options/padding_words.hpp"
#include "common/runs/checkpoint_record.hpp"
#include "common/tables/group_report.hpp"
#include "common/tables/table.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The figures of lambda-solve for the queries of one head; empty queries are only counted.
struct DualHead {
  Index queries = 0;
  Index converged = 0;
  Index empty = 0;
  Padding padding;
  double max_gap = 0;
  double max_relative_gap = 0;  ///< gap/(1 + |primal|)
  double max_gradient_norm = 0;
  double max_certificate_error = 0;  ///< error of primal − dual − gap, in roundings
  Index max_iterations = 0;
  Index iterations = 0;                    ///< sum over all queries
  std::optional<Convergence> convergence;  ///< the slowest of the queries that did not converge
  std::vector<double> relative_deviation;  ///< of each query
  std::vector<double> out_deviation;       ///< of each query, if there are values
  std::vector<double> by_query;            ///< relative deviations again, NaN for empty queries
  std::vector<double> alpha;               ///< of each query, if there is a radius

  Index problems() const { return queries - empty; }
  void add(const DualHead& more);
};

/// For a checkpoint (common/runs/checkpoint_record.hpp).
template <class Archive>
void archive(Archive& with, DualHead& head) {
  for (Index* const count :
       {&head.queries, &head.converged, &head.empty, &head.max_iterations, &head.iterations}) {
    archive(with, *count);
  }
  for (double* const figure : {&head.max_gap, &head.max_relative_gap, &head.max_gradient_norm,
                               &head.max_certificate_error}) {
    archive(with, *figure);
  }
  archive(with, head.padding);
  archive(with, head.convergence);
  archive(with, head.relative_deviation);
  archive(with, head.out_deviation);
  archive(with, head.by_query);
  archive(with, head.alpha);
}

/// The common data of the heads of a section.
struct DualHeading {
  Shape leading;  ///< axes of the heads
  Index queries = 0;
  Index keys = 0;  ///< templates
  Index axes = 0;
  double alpha = 1;
  std::optional<double> radius = std::nullopt;  ///< in place of alpha
  double template_scale = 1;
  double evidence_scale = 1;
};

/// Mean, 5%, 50%, 95% and the largest, " {:>8}" each, and their headings.
std::string quantiles_text(std::vector<double> values);
std::string deviation_headings();

/// The relative deviations of one section as means over the heads, one for each query that has a
/// template in some head, in the order of the batch. `leading` are the axes of the heads.
std::vector<double> mean_over_heads(const std::vector<DualHead>& heads, const Shape& leading);

/// Fills in the report's result, by head. `averaged` are the means over the heads, if requested.
void report_dual(const DualHeading& heading, const std::vector<DualHead>& heads,
                 const std::optional<std::vector<double>>& averaged, cli::Report& report);

/// A table for people, with a line for each head. `label` names the section, if there are several.
std::string dual_text(const DualHeading& heading, const std::vector<DualHead>& heads,
                      const std::optional<std::vector<double>>& averaged, const std::string& label);

/// The columns of --tsv, and the rows of one section: one for each head and, if requested, one for
/// the mean over the heads.
std::vector<TableColumn> dual_table_columns();
std::vector<std::vector<Cell>> dual_table_rows(const DualHeading& heading,
                                               const SectionName& section,
                                               const std::vector<DualHead>& heads,
                                               const std::optional<std::vector<double>>& averaged);

/// The meaning of each column, for the manual page.
std::vector<std::pair<std::string, std::string>> dual_table_meanings();

/// The summary line and the exit status of all sections; `shape` is the shape of the scores of the
/// only section, without --each.
cli::Outcome conclude_dual(const Shape& shape, const DualHead& all,
                           const std::optional<std::vector<double>>& averaged, Index heads,
                           const GroupReport& groups, bool several, cli::Report& report);

}  // namespace attn::tools
