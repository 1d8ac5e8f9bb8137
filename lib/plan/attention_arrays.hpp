#pragma once

#include <optional>
#include <vector>

#include "plan/attention_layout.hpp"
#include "plan/number_check.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// An operand's numbers in one run.
template <class T>
struct BoundOperand {
  const PlannedOperand* plan = nullptr;
  const T* data = nullptr;
  std::size_t check = 0;  ///< its number in the NumberCheck

  explicit operator bool() const { return plan != nullptr; }
  MatrixView<const T> block(Index n) const {
    return {data + n * plan->size(), plan->rows, plan->cols};
  }
  MatrixView<const T> of(Index problem) const { return block(plan->block(problem)); }
};

/// q, k or v of all problems: an operand as it is, or projections that are kept from run to run.
template <class T>
class BoundVectors {
 public:
  explicit BoundVectors(const PlannedVectors& plan);

  /// Computes all projections. Throws the errors of `project`.
  void project_all(const char* what, int threads);

  MatrixView<const T> of(Index problem) const;
  ProjectedFrom<T> made_of(Index problem) const;

  /// Bytes of the projections.
  std::int64_t bytes() const { return products_.size() * static_cast<Index>(sizeof(T)); }

  BoundOperand<T> own, input, weights, bias;

 private:
  MatrixView<T> product(Index n) const;

  const PlannedVectors& plan_;
  Buffer<T> products_;
};

/// The arguments of the functions of plan/head.hpp for one head, with the sources of its matrices.
template <class T>
struct BoundHead {
  BoundHead() = default;
  BoundHead(const BoundHead&) = delete;
  BoundHead& operator=(const BoundHead&) = delete;

  HeadArrays<T> arrays;
  std::optional<BroadcastMatrix<T>> scores, bias, preference;
  std::optional<BroadcastMatrix<std::uint8_t>> mask;
  std::optional<RelativeBias<T>> relative;
};

/// The arrays of one run, checked against the plan.
template <class T>
class AttentionArrays {
 public:
  /// `layout` must outlive it.
  AttentionArrays(const AttentionShapes& shapes, const AttentionLayout& layout);

  /// Checks all inputs, on up to `threads` threads, and computes projections. `grad_out` may be
  /// absent. Throws Error(input) for arrays that do not fit the plan and for numbers that are not
  /// finite or out of range, and the errors of `project`.
  void bind(const AttentionInputs<T>& inputs, TensorView<const T> grad_out, int threads);

  /// Thread-safe.
  void head(Index problem, BoundHead<T>& head) const;
  MatrixView<const T> grad_out(Index problem) const;
  double hybrid(Index problem) const;

  const BoundVectors<T>& q() const { return q_; }
  const BoundVectors<T>& k() const { return k_; }
  const BoundVectors<T>& v() const { return v_; }

  /// Bytes that are kept from run to run.
  std::int64_t bytes() const { return q_.bytes() + k_.bytes() + v_.bytes(); }

 private:
  BoundOperand<T> checked(const std::optional<PlannedOperand>& plan, Allowed allowed);
  void check_vectors(const PlannedVectors& plan, BoundVectors<T>& vectors, bool first_use);
  void require_planned(const AttentionInputs<T>& inputs) const;
  void set(BoundOperand<T>& operand, const TensorView<const T>& view);
  void set_vectors(const AttentionInputs<T>& inputs);
  void require_small_numbers() const;
  std::optional<BroadcastMatrix<T>> source(const BoundOperand<T>& operand, Index problem) const;

  AttentionShapes shapes_;
  const AttentionLayout& layout_;
  NumberCheck<T> numbers_;
  BoundVectors<T> q_, k_, v_;
  BoundOperand<T> scores_, bias_, preference_, rel_bias_;
  std::vector<BoundOperand<T>> energy_;
  const std::uint8_t* mask_ = nullptr;
  const Index* key_length_ = nullptr;
  const double* hybrid_ = nullptr;
  const T* grad_out_ = nullptr;
};

}  // namespace attn
