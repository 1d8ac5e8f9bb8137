#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "collapse/clusters.hpp"
#include "io/input.hpp"
#include "tensor/buffer.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The sets of points that mode-collapse-sim works on: the dataset x (..., N, d), labelled by the
/// dataset label (N) or (..., N), or drawn as --centres and the like say, a set for each of --seeds
/// seeds from --seed on. Drawn points are those of `tensor-gen clusters x=NxD` with that seed.
class PointSets {
 public:
  /// `input`: null where nothing was named. Throws Error(usage) where points are asked for twice or
  /// not at all, Error(input) naming a dataset whose type or shape does not fit,
  /// Error(memory) where the labels of a set do not fit into --memory.
  PointSets(const cli::Arguments& arguments, const io::InputBundle* input, bool labelled);

  Shape leading;     ///< of x, or the seeds where --seeds is given
  Index sets = 1;    ///< product of these
  Index points = 0;  ///< N
  Index dimension = 0;
  Index clusters = 0;  ///< 0 where labels were not asked for
  bool f64 = true;     ///< computed in float64

  bool drawn() const { return clusters_.has_value(); }
  const std::vector<io::InputDataset>& datasets() const { return datasets_; }

  /// Lists the datasets, and what the options came to, in the report.
  void report_params(const cli::Arguments& arguments, Index steps,
                     const std::set<std::string>& emitted, cli::Report& report) const;

  /// The points of one set, rounded to T. Throws Error(input) naming a point that is not finite.
  template <class T>
  void read(Index set, T* out) const;

  /// From 0 to clusters − 1, the labels that occur in ascending order. Throws Error(input) where a
  /// set lacks one of them.
  std::vector<std::int64_t> labels(Index set) const;

  /// The labels that these stand for (clusters).
  const std::vector<std::int64_t>& names() const { return names_; }

  /// "points 100 x 550 x 2": sets, points, coordinates.
  std::string text() const;

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
  std::vector<io::InputDataset> datasets_;  // x, label
  std::vector<std::int64_t> names_;
};

}  // namespace attn::tools
