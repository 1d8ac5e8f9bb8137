#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attnkit/attention.hpp"
#include "head/attention_sources.hpp"
#include "head/own_part.hpp"
#include "plan/planned_operand.hpp"

namespace attn {

/// q, k or v computed from other operands. Problems that use the same blocks and have the same
/// bounds share one product.
struct PlannedProjection {
  PlannedOperand input, weights;
  std::optional<PlannedOperand> bias;
  std::vector<Index> products;    ///< by product: the first problem that uses it
  std::vector<Index> product_of;  ///< by problem

  Index rows() const { return input.rows; }
  Index cols() const { return weights.cols; }
};

/// Vectors of a head: an operand itself, or a projection.
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
  std::optional<PlannedOperand> scores, bias, preference, mask, rel_bias, hybrid, sink, gate;
  PerBound<std::optional<PlannedOperand>> bounds;
  std::vector<std::optional<PlannedOperand>> energy;  ///< one per operand of the energy
  ScoreRecipe recipe;
  Causal causal = Causal::none;
  SchemeOptions scheme;
  std::optional<Repetition> repetition;

  Index queries() const { return sizes.queries; }
  Index keys() const { return sizes.keys; }
  bool projects() const { return q.projected.has_value(); }

  /// The bounds that are present.
  std::vector<const PlannedOperand*> bounds_given() const;

 private:
  void take_options(const AttentionOptions& options);
  void take_scores(const AttentionShapes& shapes, AttentionSources& sources);
  void take_energy(const AttentionShapes& shapes, const AttentionOptions& options,
                   AttentionSources& sources);
  void take_terms(const AttentionShapes& shapes, AttentionSources& sources);
  void take_bounds(const AttentionShapes& shapes);
  void take_operands(const AttentionSources& sources);

  PlannedProjection projection(const Vectors& vectors) const;
  PlannedOperand number_operand(const char* name, const Shape& shape, const Shape& aligned) const;
};

}  // namespace attn
