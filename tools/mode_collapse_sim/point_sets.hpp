#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "collapse/clusters.hpp"
#include "common/shards/problem_share.hpp"
#include "io/input.hpp"
#include "reports/collapse_report.hpp"
#include "tensor/buffer.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The sets of points of mode-collapse-sim: the dataset x (..., N, d), labelled by the dataset
/// label (N) or (..., N), or points drawn by --centres and related options, one set for each of
/// --seeds seeds from --seed on. Drawn points equal those of `tensor-gen clusters x=NxD` with the
/// same seed.
class PointSets {
 public:
  /// `input` is null if nothing was named. Throws Error(usage) if points are specified twice or not
  /// at all, Error(input) naming a dataset whose type or shape does not match, Error(memory) if the
  /// labels of a set do not fit into --memory.
  PointSets(const cli::Arguments& arguments, const io::InputBundle* input, bool labelled);

  Shape leading;     ///< of x, or the seeds if --seeds is given
  Index sets = 1;    ///< product of the leading axes
  Index points = 0;  ///< N
  Index dimension = 0;
  Index clusters = 0;                   ///< 0 if labels were not requested
  bool f64 = true;                      ///< computed in float64
  std::shared_ptr<ProblemShare> share;  ///< of a shard; null: all sets

  /// The number of sets to compute, and the n-th of them.
  Index own_sets() const { return share ? share->size() : sets; }
  Index own_set(Index n) const { return share ? share->problem(n) : n; }

  bool drawn() const { return clusters_.has_value(); }
  const std::vector<ArraySource>& datasets() const { return datasets_; }

  /// Lists the datasets and the resolved options in the report.
  void report_params(const cli::Arguments& arguments, Index steps,
                     const std::set<std::string>& emitted, cli::Report& report) const;

  /// The points of one set, rounded to T. Throws Error(input) naming a point that is not finite.
  template <class T>
  void read(Index set, T* out) const;

  /// The labels as indices from 0 to clusters − 1, in ascending order of the labels. Throws
  /// Error(input) if a set lacks one of them.
  std::vector<std::int64_t> labels(Index set) const;

  /// The stored labels of these indices (clusters).
  const std::vector<std::int64_t>& names() const { return names_; }

  /// "points 100 x 550 x 2": sets, points, coordinates.
  std::string text() const;

  /// The report's heading for the own sets, with `steps` steps.
  PointHeading heading(Index steps) const { return {text(), own_sets(), points, dimension, steps}; }

  /// "seed 7", "x.h5:/x [3]", for messages.
  std::string place(Index set) const;

 private:
  void draw(const cli::Arguments& arguments);
  void take(const io::InputBundle& input, bool labelled, std::int64_t memory);
  void take_labels(const io::InputBundle& input, std::int64_t memory);
  std::vector<std::int64_t> stored_labels(Index set) const;

  std::uint64_t seed_ = 0;
  std::optional<collapse::Clusters> clusters_;
  std::vector<Index> count_ends_;
  std::vector<ArraySource> datasets_;  // x, label
  std::vector<std::int64_t> names_;
};

}  // namespace attn::tools
