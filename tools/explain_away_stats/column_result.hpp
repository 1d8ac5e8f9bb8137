#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/heads/attention_input.hpp"
#include "common/runs/checkpoint_record.hpp"
#include "explain_away_stats/column_task.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// The results of a head under one scheme.
struct SchemeResult {
  HeadColumns columns;
  double mean_entropy = 0;
  double on_sink = 0;  ///< of all queries
  std::optional<SinkFigures> sinks;
  std::optional<double> bound;
  bool converged = true;
  std::optional<Convergence> convergence;
};

/// The same under all schemes of one point of a sweep.
struct PointResult {
  std::vector<std::uint8_t> masked;
  Index empty_queries = 0;
  std::vector<SchemeResult> schemes;
};

/// The same at all points.
struct HeadResult {
  OwnPart part;
  std::vector<Index> queries_of_key;
  std::vector<PointResult> points;
};

template <class Archive>
void archive(Archive& with, SchemeResult& result) {
  archive(with, result.columns.sums);
  archive(with, result.columns.entropies);
  archive(with, result.mean_entropy);
  archive(with, result.on_sink);
  archive(with, result.sinks);
  archive(with, result.bound);
  archive(with, result.converged);
  archive(with, result.convergence);
}

template <class Archive>
void archive(Archive& with, PointResult& result) {
  archive(with, result.masked);
  archive(with, result.empty_queries);
  archive(with, result.schemes);
}

template <class Archive>
void archive(Archive& with, HeadResult& result) {
  archive(with, result.part);
  archive(with, result.queries_of_key);
  archive(with, result.points);
}

/// Takes the weights that queries give to the sink, and adds their terms to the entropies;
/// `on_sink` is empty without a sink.
void take_sink(const PooledVector<double>& on_sink, const AllowedCounts& allowed,
               SchemeResult& found);

/// The result of a scheme, with the columns that observers gathered.
SchemeResult result_of(const Attention& attention, const SchemeOptions& made, HeadColumns columns);

/// Computes the figures that follow from the columns of a head. `scheme` is absent if unknown.
void complete(const ColumnOptions& options, const AttentionInput& input, Index problem,
              const AllowedCounts& allowed, const std::optional<Scheme>& scheme,
              Index empty_queries, SchemeResult& found);

/// The figures of the first keys, `sinks`, of a head with these column sums.
SinkFigures sink_figures(SinkFigures of_values, const AllowedCounts& allowed,
                         const std::vector<Index>& sinks, const std::vector<double>& sums);

/// A point without schemes.
PointResult point_of(const AllowedCounts& allowed);

/// Extends numbers of the own queries and keys of a problem to all; padded keys are masked.
void spread(const AttentionInput& input, Index problem, HeadResult& result);

}  // namespace attn::tools
