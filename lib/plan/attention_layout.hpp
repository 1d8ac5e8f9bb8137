#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "attnkit/attention.hpp"
#include "plan/head.hpp"

namespace attn {

/// An operand whose shape has been checked: each problem uses one block of it, rows × cols.
struct PlannedOperand {
  std::string name;
  Shape shape;
  Index rows = 1;  ///< 1 along an axis of a block that broadcasts
  Index cols = 1;
  Index blocks = 1;
  std::vector<Index> block_of;  ///< by problem

  Index size() const { return rows * cols; }
  Index block(Index problem) const { return block_of[static_cast<std::size_t>(problem)]; }
};

/// q, k or v computed from other operands. Problems that use the same blocks share one product.
struct PlannedProjection {
  PlannedOperand input, weights;
  std::optional<PlannedOperand> bias;
  std::vector<std::array<Index, 3>> products;  ///< blocks of input, weights and bias
  std::vector<Index> product_of;               ///< by problem

  Index rows() const { return input.rows; }
  Index cols() const { return weights.cols; }
};

/// Vectors of a head: an operand as it is, or a projection.
struct PlannedVectors {
  std::optional<PlannedOperand> own;
  std::optional<PlannedProjection> projected;

  explicit operator bool() const { return own || projected; }
  Index rows() const { return own ? own->rows : projected->rows(); }
  Index cols() const { return own ? own->cols : projected->cols(); }
};

/// The checked shapes and options of a plan, and the layout of every problem that follows from
/// them.
class AttentionLayout {
 public:
  /// Throws the errors of AttentionPlan's constructor.
  AttentionLayout(const AttentionShapes& shapes, const AttentionOptions& options);

  Shape leading;
  Index problems = 1;
  EnergySizes sizes;
  Index v_head_dim = 0;  ///< 0 without values
  PlannedVectors q, k, v;
  bool has_y = false;  ///< keys and values are projected from y, not from x
  std::optional<PlannedOperand> scores, bias, preference, mask, rel_bias, hybrid, key_length;
  std::vector<std::optional<PlannedOperand>> energy;  ///< one per operand of the energy
  ScoreRecipe recipe;
  SchemeOptions scheme;

  Index queries() const { return sizes.queries; }
  Index keys() const { return sizes.keys; }
  bool projects() const { return q.projected.has_value(); }

 private:
  void take_options(const AttentionOptions& options);
  void take_vectors(const AttentionShapes& shapes);
  void take_projections(const AttentionShapes& shapes);
  void take_scores(const AttentionShapes& shapes);
  void take_values(const Shape& shape);
  void take_energy(const AttentionShapes& shapes, const AttentionOptions& options);
  void take_terms(const AttentionShapes& shapes);

  PlannedOperand blocks_of(const char* name, const Shape& shape, const Shape& own, Index rows,
                           Index cols, bool grouped) const;
  PlannedOperand vectors(const char* name, const Shape& shape, bool grouped) const;
  PlannedOperand vector(const char* name, const Shape& shape, Index length, bool grouped) const;
  PlannedOperand matrix(const char* name, const Shape& shape) const;
  PlannedProjection projection(const char* names[3], const Shape& input, const Shape& weights,
                               const std::optional<Shape>& added, bool grouped) const;
};

}  // namespace attn
