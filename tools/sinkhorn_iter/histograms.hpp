#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "head/operand.hpp"
#include "io/input.hpp"
#include "sinkhorn/barycentre.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::tools {

/// The name of the dataset of weights.
constexpr const char* histogram_weights = "histogram_weights";

/// The histograms of one problem.
struct OwnHistograms {
  Index count = 0;
  PooledVector<double> masses;   ///< (K, own keys), with equal sums
  PooledVector<double> weights;  ///< (K), with the sum 1
  double weight_sum = 1;         ///< the divisor of the dataset's weights
  std::string refusal;           ///< why the histograms have no barycentre; empty if they have one
  double first_total = 0;        ///< sums of the first histogram, and of the one farthest from it
  double other_total = 0;

  Histograms view() const { return {count, masses, weights}; }
};

/// The datasets of the verb barycentre.
struct HistogramInput {
  /// Throws Error(input) naming a dataset that is missing or whose shape or type does not fit.
  HistogramInput(const io::InputBundle& bundle, const Shape& leading, Index keys);

  /// The histograms of a problem with `count` own keys from `first` on. The sums of histograms may
  /// differ by rounding and are then made equal to the first; the weights are divided by their sum.
  /// Throws Error(input) for numbers that are not finite and ≥ 0, or weights without a sum.
  OwnHistograms read(Index problem, Index first, Index count) const;

  Operand masses;                  ///< a (…, K, Lk)
  std::optional<Operand> weights;  ///< (…, K); none: all the same
  Index count = 0;                 ///< K
};

/// Extends `lines` lines of results over a problem's own queries or keys to all `total` queries or
/// keys: the own ones begin at `first`; all others are padding and get the value `padding`.
template <class Values>
void spread_lines(Values& values, Index lines, Index first, Index total, double padding) {
  const Index own = static_cast<Index>(values.size()) / lines;
  if (own == total) return;
  Values all(static_cast<decltype(values.size())>(lines * total));
  std::fill(all.begin(), all.end(), padding);
  for (Index line = 0; line < lines; ++line) {
    std::copy_n(values.begin() + line * own, own, all.begin() + line * total + first);
  }
  values = std::move(all);
}

}  // namespace attn::tools
