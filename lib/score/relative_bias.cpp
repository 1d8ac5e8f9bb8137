#include "score/relative_bias.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "attnkit/error.hpp"

namespace attn {
namespace {

Index distances(Index rows, Index cols) { return rows == 0 || cols == 0 ? 0 : rows + cols - 1; }

Index buckets_of_side(const BucketRule& rule) {
  return rule.bidirectional ? rule.buckets / 2 : rule.buckets;
}

// of_distance(j − p_i) for every pair.
template <class T, class OfDistance>
RelativeBias<T> tabulate(Index rows, Index cols, Index offset, const OfDistance& of_distance) {
  PooledVector<T> values(static_cast<std::size_t>(distances(rows, cols)));
  const Index lowest = -(rows - 1) - offset;
  for (std::size_t n = 0; n < values.size(); ++n) {
    values[n] = of_distance(lowest + static_cast<Index>(n));
  }
  return RelativeBias<T>(rows, cols, std::move(values));
}

}  // namespace

void require_buckets(const BucketRule& rule) {
  const Index fewest = rule.bidirectional ? 4 : 2;
  if (rule.buckets < fewest) {
    throw Error(Failure::input, "rel_bias has " + std::to_string(rule.buckets) +
                                    " buckets, expected at least " + std::to_string(fewest));
  }
  const Index exact = buckets_of_side(rule) / 2;
  if (rule.max_distance <= exact) {
    throw Error(Failure::input, "the largest distance of the relative bias is " +
                                    std::to_string(rule.max_distance) + ", expected more than " +
                                    std::to_string(exact));
  }
}

template <class T>
RelativeBias<T>::RelativeBias(Index rows, Index cols, PooledVector<T> values)
    : rows_(rows), cols_(cols), values_(std::move(values)) {
  for (const T value : values_) {
    if (!std::isfinite(value)) {
      throw Error(Failure::input,
                  "a relative bias is " + std::to_string(value) + ", expected finite numbers");
    }
    bound_ = std::max(bound_, std::abs(static_cast<double>(value)));
  }
}

Index t5_bucket(Index relative, const BucketRule& rule) {
  const Index side = buckets_of_side(rule);
  const Index exact = side / 2;
  const Index start = rule.bidirectional && relative > 0 ? side : 0;
  const Index distance = rule.bidirectional ? std::abs(relative) : -std::min<Index>(relative, 0);
  if (distance < exact) return start + distance;
  // Each step is rounded to float32, as in tensors of that type: log(float(x)/exact) /
  // log(max/exact) times a count. The logarithms are taken in float64 so that they round correctly
  // on any machine.
  const float ratio = static_cast<float>(distance) / static_cast<float>(exact);
  const auto log_ratio = static_cast<float>(std::log(static_cast<double>(ratio)));
  const auto log_most = static_cast<float>(
      std::log(static_cast<double>(rule.max_distance) / static_cast<double>(exact)));
  const float steps = log_ratio / log_most * static_cast<float>(side - exact);
  const Index last = side - 1;
  // Compared before conversion to an integer, which might overflow.
  if (steps >= static_cast<float>(last - exact)) return start + last;
  return start + exact + static_cast<Index>(steps);
}

template <class T>
RelativeBias<T> t5_relative_bias(MatrixView<const T> rel_bias, Index head, Index rows, Index cols,
                                 const BandRule& band, Index max_distance) {
  BucketRule rule;
  rule.bidirectional = !band.causal;
  rule.buckets = rel_bias.rows;
  rule.max_distance = max_distance;
  require_buckets(rule);
  return tabulate<T>(rows, cols, band.offset,
                     [&](Index relative) { return rel_bias(t5_bucket(relative, rule), head); });
}

std::vector<double> alibi_slopes(Index heads) {
  std::vector<double> slopes;
  if (heads <= 0) return slopes;
  const auto power = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  for (Index h = 0; h < heads; ++h) {
    const auto step = static_cast<double>(h < power ? 2 * (h + 1) : 2 * (h - power) + 1);
    slopes.push_back(std::exp2(-4.0 * step / static_cast<double>(power)));
  }
  return slopes;
}

template <class T>
RelativeBias<T> alibi_bias(double slope, Index rows, Index cols, const BandRule& band) {
  return tabulate<T>(rows, cols, band.offset, [&](Index relative) {
    return static_cast<T>(-slope * static_cast<double>(std::abs(relative)));
  });
}

std::int64_t relative_bias_bytes(Index rows, Index cols, std::size_t element_size) {
  return distances(rows, cols) * static_cast<std::int64_t>(element_size);
}

template class RelativeBias<float>;
template class RelativeBias<double>;
template RelativeBias<float> t5_relative_bias(MatrixView<const float>, Index, Index, Index,
                                              const BandRule&, Index);
template RelativeBias<double> t5_relative_bias(MatrixView<const double>, Index, Index, Index,
                                               const BandRule&, Index);
template RelativeBias<float> alibi_bias(double, Index, Index, const BandRule&);
template RelativeBias<double> alibi_bias(double, Index, Index, const BandRule&);

}  // namespace attn
