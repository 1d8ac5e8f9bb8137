#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "collapse/clusters.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// A dataset that tensor-gen is about to make.
struct Planned {
  std::string name;
  Shape shape;
  DType type = DType::f32;
  std::vector<std::string> labels;  ///< of the axes
  bool is_label = false;            ///< holds the clusters of the points of `points_name`
  std::string points_name;
};

/// The checked task of tensor-gen: the datasets and the formulas of their elements. Values depend
/// only on the seed, the dataset's name and the element's row-major index.
class Recipe {
 public:
  /// Throws Error(usage) for a malformed NAME=SHAPE, a repeated name, or clusters that do not match
  /// the shape.
  explicit Recipe(const cli::Arguments& arguments);

  const std::vector<Planned>& plan() const { return plan_; }

  /// Elements [first, first + count) of a planned dataset of numbers: normal
  /// mean + std z, with --fan-in mean + std z/sqrt(length of the last axis), uniform low + (high -
  /// low) u, points centre + L z for the covariance L L^T, with z and u the elements of the
  /// RandomStream of the dataset's name.
  void values(const Planned& planned, Index first, Index count, double* out) const;

  /// The same for a dataset of labels: in clusters by the position of the point; in mixture by
  /// comparing the uniform element of the point in the stream "NAME/component" with the running sum
  /// of the weights.
  void labels(const Planned& planned, Index first, Index count, std::int64_t* out) const;

 private:
  void plan_datasets(const std::vector<std::string>& words, DType type);
  void take_points(const cli::Arguments& arguments);
  void require_points(const Planned& planned) const;
  Index component(double fraction) const;
  void points(const Planned& planned, Index first, Index count, double* out) const;

  enum class Kind { normal, uniform, clusters, mixture };
  Kind kind_ = Kind::normal;
  std::uint64_t seed_ = 0;
  double shift_ = 0;
  double factor_ = 1;
  bool by_fan_in_ = false;  // the factor is divided by the square root of the last axis
  std::optional<collapse::Clusters> clusters_;
  std::vector<Index> count_ends_;    // running sum of the counts
  std::vector<double> weight_ends_;  // running sum of the weights, normalised to 1
  Index last_component_ = 0;         // the last one with a positive weight
  std::vector<Planned> plan_;
};

}  // namespace attn::tools
