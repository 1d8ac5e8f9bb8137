#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/divided_gradient_needs.hpp"
#include "common/divided_part.hpp"

namespace attn::tools {

/// Block sizes, threads and memory of heads that ranks can divide.
class DivisionPlanner {
 public:
  /// All must outlive it. `memory` are the bytes of each rank.
  DivisionPlanner(const AttentionInput& input, const DividedWants& wants, std::size_t element_size,
                  Index ranks, std::int64_t memory);

  /// Nothing if heads had better be whole, see find_division. Otherwise what takes the least memory
  /// if no plan fits. Throws the errors of require_readable.
  std::optional<DividedPlan> plan(const HeadNeeds& needs, int threads) const;

 private:
  std::vector<LargestPart> largest_parts(Index ranks) const;
  Index rows_of_output(Index ranks) const;
  bool begins_with_keys() const { return steps_.front() == DividedStep::columns; }
  bool ends_with_keys() const { return steps_.back() == DividedStep::columns; }
  Index lines_within(std::int64_t line_bytes) const;
  std::int64_t block_line_bytes() const;
  void fit(DividedPlan& plan) const;
  std::int64_t bytes(const DividedPlan& plan) const;
  std::int64_t forward_bytes(const DividedPlan& plan) const;
  template <class T>
  std::int64_t step_bytes(const DividedPlan& plan, std::size_t step) const;
  template <class T>
  std::int64_t key_block_bytes(const DividedPlan& plan, std::size_t step) const;
  template <class T>
  std::int64_t query_block_bytes(const DividedPlan& plan, std::size_t step) const;

  const AttentionInput& input_;
  const DividedWants& wants_;
  const std::size_t element_size_;
  const std::int64_t memory_;
  const std::vector<DividedStep> steps_;
  const std::vector<LargestPart> most_;  // by step
  const Index rows_;                     // the most queries whose output a rank has
  const DividedGradientNeeds gradients_;
};

}  // namespace attn::tools
