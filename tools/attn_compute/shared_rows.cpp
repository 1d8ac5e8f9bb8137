#include "attn_compute/shared_rows.hpp"

#include <algorithm>

#include "common/divided_plan.hpp"

namespace attn::tools {

template <class T>
SharedRows<T>::SharedRows(kernel::Ranks& ranks, const std::vector<Index>& block_of, Index blocks,
                          Index rows, Index cols)
    : ranks_(ranks), sums_(block_of, blocks), rows_(rows), cols_(cols) {
  const RowRange own = own_rows(ranks.own());
  part_ = Buffer<T>((own.last - own.first) * cols);
  std::fill(part_.begin(), part_.end(), T{0});
}

template <class T>
RowRange SharedRows<T>::own_rows(int rank) const {
  return {rank * rows_ / ranks_.count(), (rank + 1) * rows_ / ranks_.count()};
}

template <class T>
void SharedRows<T>::take(const GatheredRows<T>& rows) {
  send_to_keepers(
      ranks_, rows, cols_, [&](int rank) { return own_rows(rank); }, part_.data());
}

template <class T>
void SharedRows<T>::take_own(Index first, Index count, const T* numbers) {
  const RowRange own = own_rows(ranks_.own());
  const Index begin = std::max(own.first, first);
  const Index end = std::min(own.last, first + count);
  if (begin >= end) return;
  std::copy_n(numbers + (begin - first) * cols_, (end - begin) * cols_,
              part_.data() + (begin - own.first) * cols_);
}

template <class T>
void SharedRows<T>::end_head(Index problem, const ShowRows<T>& show) {
  const bool last = sums_.awaits_last(problem);
  const std::span<const T> sum = sums_.add(problem, own_part());
  std::fill(part_.begin(), part_.end(), T{0});
  if (!last) return;
  const Index at_once = rows_of_piece(cols_ * static_cast<Index>(sizeof(T)));
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    const RowRange rows = own_rows(rank);
    for (Index first = rows.first; first < rows.last; first += at_once) {
      const T* const own =
          rank == ranks_.own() ? sum.data() + (first - rows.first) * cols_ : nullptr;
      show({rank, first, std::min(at_once, rows.last - first), own});
    }
  }
}

template <class T>
std::int64_t SharedRows<T>::bytes(Index rows, Index cols, Index open, Index ranks) {
  const Index own = (rows + ranks - 1) / ranks * cols;
  // The part, and a sum as it is rounded.
  return own * (2 * static_cast<Index>(sizeof(T)) + open * static_cast<Index>(sizeof(double)));
}

template class SharedRows<float>;
template class SharedRows<double>;

}  // namespace attn::tools
