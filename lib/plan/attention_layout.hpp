#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "attnkit/attention.hpp"
#include "head/attention_sources.hpp"
#include "head/head_reader.hpp"
#include "tensor/memory_array.hpp"

namespace attn {

/// Operands as sources, which get their memory in every run; null for absent ones.
template <class T>
using PlannedArray = std::shared_ptr<MemoryArray>;
using PlannedArrays = AttentionOperands<PlannedArray, void>;

/// The checked shapes and options of a plan, and the sources of its operands.
class AttentionLayout : public AttentionSources {
 public:
  /// `type`: of the numbers that a plan computes with. Throws the errors of AttentionPlan's
  /// constructor.
  AttentionLayout(const AttentionShapes& shapes, const AttentionOptions& options, DType type);

  AttentionShapes shapes;
  PlannedArrays arrays;
  std::vector<HeadPart> heads_to_read;  ///< all problems
  std::optional<Operand> hybrid;
  PerBound<std::optional<Operand>> bounds;
  Causal causal = Causal::none;
  SchemeOptions scheme;
  std::optional<Repetition> repetition;

  const ScoreRecipe& recipe() const { return plain; }
  bool projects() const { return q && q->weights; }

  /// The u of hnas of a problem.
  double hybrid_of(Index problem) const;

  /// The most bytes that the projections of q, k and v and the lists of problems take.
  std::int64_t kept_bytes() const;

  /// Takes the arrays of a run as sources, and finds the own part and the sink of each problem.
  /// `grad_out` may be absent. Throws Error(input) for arrays that do not fit the plan, and for
  /// bounds, sinks and shares of hnas that are out of range.
  template <class T>
  void bind(const AttentionInputs<T>& inputs, const TensorView<const T>& grad_out);

 private:
  void make_arrays(DType type);
  void take_options(const AttentionOptions& options);
  void take_source();
  void take_energy(const AttentionOptions& options);
  void take_terms();
  void take_bounds();
  void find_parts();
  void find_packing();
  void find_sinks();

  std::shared_ptr<MemoryArray> grad_out_array_;
  std::optional<Vectors> grad_out_operand_;
};

}  // namespace attn
