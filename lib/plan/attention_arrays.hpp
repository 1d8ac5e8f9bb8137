#pragma once

#include <optional>
#include <vector>

#include "pass/row_selection.hpp"
#include "plan/attention_layout.hpp"
#include "plan/number_check.hpp"
#include "plan/regions.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// An operand's numbers in one run.
template <class T>
struct BoundOperand {
  const PlannedOperand* plan = nullptr;
  const T* data = nullptr;
  std::size_t check = 0;  ///< the operand's number in the NumberCheck

  explicit operator bool() const { return plan != nullptr; }
  MatrixView<const T> of(Index problem) const {
    return {data + plan->block(problem) * plan->size(), plan->rows, plan->cols};
  }
  MatrixView<const T> rows_of(Index problem, RowRange rows) const {
    return of(problem).row_range(rows.first, rows.last - rows.first);
  }
};

/// The own part of every problem in one run.
using OwnParts = std::vector<OwnPart>;

/// Which positions the rows of an operand's blocks stand for; blocks with `none` are not cut.
enum class RowsAre { none, queries, keys };

/// The own rows of a problem.
RowRange own_rows(RowsAre rows, const OwnPart& part);

/// q, k or v of all problems: an operand itself, or projections, whose memory is kept from run to
/// run. Only own rows are projected.
template <class T>
class BoundVectors {
 public:
  /// `plan` and `parts` must outlive the object.
  BoundVectors(const PlannedVectors& plan, RowsAre rows, const OwnParts& parts);

  /// Computes all projections. Throws the errors of `project`.
  void project_all(const char* what, int threads);

  /// The own rows.
  MatrixView<const T> of(Index problem) const;
  ProjectedFrom<T> made_of(Index problem) const;

  /// Bytes of the projections.
  std::int64_t bytes() const { return products_.size() * static_cast<Index>(sizeof(T)); }

  BoundOperand<T> given, input, weights, bias;

 private:
  MatrixView<T> product(Index n) const;
  RowRange own(Index problem) const;

  const PlannedVectors& plan_;
  RowsAre rows_;
  const OwnParts& parts_;
  Buffer<T> products_;
};

/// The arguments of the functions of plan/head.hpp for one head, with the sources of its matrices.
template <class T>
struct BoundHead {
  BoundHead() = default;
  BoundHead(const BoundHead&) = delete;
  BoundHead& operator=(const BoundHead&) = delete;

  HeadArrays<T> arrays;
  std::optional<BroadcastMatrix<T>> scores, bias, preference, gate;
  std::optional<BroadcastMatrix<std::uint8_t>> mask;
  std::optional<RelativeBias<T>> relative;
};

/// The arrays of one run, checked against the plan.
template <class T>
class AttentionArrays {
 public:
  /// `layout` must outlive the object.
  AttentionArrays(const AttentionShapes& shapes, const AttentionLayout& layout);

  /// Checks all inputs, on up to `threads` threads, and computes projections. `grad_out` may be
  /// absent. Throws Error(input) for arrays that do not fit the plan and for numbers that are not
  /// finite or out of range, and the errors of `project`.
  void bind(const AttentionInputs<T>& inputs, TensorView<const T> grad_out, int threads);

  /// Thread-safe.
  void head(Index problem, BoundHead<T>& head) const;
  MatrixView<const T> grad_out(Index problem) const;
  double hybrid(Index problem) const;
  double sink(Index problem) const;

  const OwnPart& part(Index problem) const { return parts_[static_cast<std::size_t>(problem)]; }

  const BoundVectors<T>& q() const { return q_; }
  const BoundVectors<T>& k() const { return k_; }
  const BoundVectors<T>& v() const { return v_; }

  /// Bytes that are kept from run to run.
  std::int64_t bytes() const { return q_.bytes() + k_.bytes() + v_.bytes(); }

 private:
  // An operand whose numbers are checked: some rows, and some columns if these are keys.
  struct Checked {
    std::size_t check = 0;
    Regions regions;
    RowsAre rows = RowsAre::none;
    bool by_key = false;
  };

  BoundOperand<T> checked(const PlannedOperand& plan, Allowed allowed, RowsAre rows = RowsAre::none,
                          bool by_key = false);
  BoundOperand<T> checked(const std::optional<PlannedOperand>& plan, Allowed allowed,
                          RowsAre rows = RowsAre::none);
  BoundOperand<T> checked_matrix(const std::optional<PlannedOperand>& plan, Allowed allowed);
  void check_vectors(const PlannedVectors& plan, BoundVectors<T>& vectors, RowsAre rows,
                     bool own_input);
  void find_parts();
  void set_regions();
  void look_at_grad_out(int threads);
  void require_planned(const AttentionInputs<T>& inputs) const;
  void set(BoundOperand<T>& operand, const TensorView<const T>& view);
  void set_vectors(const AttentionInputs<T>& inputs);
  void require_small_numbers() const;
  double largest(const BoundOperand<T>& operand, Index problem) const;
  std::optional<BroadcastMatrix<T>> source(const BoundOperand<T>& operand, Index problem) const;

  AttentionShapes shapes_;
  const AttentionLayout& layout_;
  OwnParts parts_;
  NumberCheck<T> numbers_;
  NumberCheck<T> gradient_numbers_;  // of grad_out
  std::vector<Checked> checked_;     // by number in the NumberCheck
  BoundVectors<T> q_, k_, v_;
  BoundOperand<T> scores_, bias_, preference_, rel_bias_, gate_;
  std::vector<BoundOperand<T>> energy_;
  const std::uint8_t* mask_ = nullptr;
  PerBound<const Index*> bounds_;
  const double* hybrid_ = nullptr;
  const double* sink_ = nullptr;
  const T* grad_out_ = nullptr;
};

}  // namespace attn
