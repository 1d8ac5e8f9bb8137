#pragma once

#include <algorithm>
#include <compare>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/shape.hpp"

namespace attn {

/// The rows of an array that have a part in the results of a head: queries that see a key, or keys
/// that a query sees. The numbers of all others are not looked at.
class SeenRows {
 public:
  SeenRows() = default;  ///< all rows
  /// begin, end, begin, end, …: ascending runs of rows.
  explicit SeenRows(std::vector<Index> bounds)
      : bounds_(std::make_shared<const std::vector<Index>>(std::move(bounds))) {}

  bool all() const { return bounds_ == nullptr; }
  bool has(Index row) const {
    if (all()) return true;
    return (std::upper_bound(bounds_->begin(), bounds_->end(), row) - bounds_->begin()) % 2 == 1;
  }

  std::strong_ordering operator<=>(const SeenRows& other) const {
    if (bounds_ == other.bounds_) return std::strong_ordering::equal;
    if (all() || other.all()) return other.all() <=> all();
    return *bounds_ <=> *other.bounds_;
  }
  bool operator==(const SeenRows& other) const { return (*this <=> other) == 0; }

 private:
  std::shared_ptr<const std::vector<Index>> bounds_;
};

}  // namespace attn
