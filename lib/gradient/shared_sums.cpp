#include "gradient/shared_sums.hpp"

#include <algorithm>
#include <utility>

namespace attn {

template <class T>
SharedSums<T>::SharedSums(PooledVector<Index> block_of, Index blocks)
    : block_of_(std::move(block_of)),
      uses_(static_cast<std::size_t>(blocks), 0),
      sums_(uses_.size()) {
  for (const Index n : block_of_) ++uses_[static_cast<std::size_t>(n)];
  left_ = uses_;
}

template <class T>
bool SharedSums<T>::any_shared() const {
  return std::any_of(uses_.begin(), uses_.end(), [](Index uses) { return uses > 1; });
}

template <class T>
void SharedSums<T>::restart() {
  left_ = uses_;
  for (Buffer<double>& sum : sums_) sum = Buffer<double>();
  rounded_ = Buffer<T>();
}

template <class T>
std::span<const T> SharedSums<T>::add(Index problem, std::span<const T> part) {
  const std::size_t at = block(problem);
  const auto size = static_cast<Index>(part.size());
  Buffer<double>& sum = sums_[at];
  if (sum.size() == 0) {
    sum = Buffer<double>(size);
    std::fill(sum.begin(), sum.end(), 0.0);
  }
  for (Index n = 0; n < size; ++n) {
    sum[n] += static_cast<double>(part[static_cast<std::size_t>(n)]);
  }
  if (--left_[at] > 0) return {};
  rounded_ = Buffer<T>(size);
  for (Index n = 0; n < size; ++n) rounded_[n] = static_cast<T>(sum[n]);
  sum = Buffer<double>();
  return {rounded_.data(), part.size()};
}

template <class T>
Index SharedSums<T>::most_open() const {
  PooledVector<Index> left = uses_;
  Index open = 0;
  Index most = 0;
  for (std::size_t n = 0; n < block_of_.size(); ++n) {
    const std::size_t at = block(static_cast<Index>(n));
    if (uses_[at] == 1) continue;
    if (left[at] == uses_[at]) most = std::max(most, ++open);
    if (--left[at] == 0) --open;
  }
  return most;
}

template class SharedSums<float>;
template class SharedSums<double>;

}  // namespace attn
