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

// Those of a rank among these.
template <class T>
RowRange SharedRows<T>::common(int rank, Index first, Index count) const {
  const RowRange own = own_rows(rank);
  const Index begin = std::max(own.first, first);
  return {begin, std::max(begin, std::min(own.last, first + count))};
}

template <class T>
void SharedRows<T>::take(const GatheredRows<T>& rows) {
  const int own = ranks_.own();
  if (own == rows.from) take_own(rows.first, rows.count, rows.numbers);
  for (int to = 0; to < ranks_.count(); ++to) {
    const RowRange moved = common(to, rows.first, rows.count);
    if (to == rows.from || moved.first == moved.last) continue;
    const auto size = static_cast<std::size_t>((moved.last - moved.first) * cols_);
    if (own == rows.from) {
      const T* const numbers = rows.numbers + (moved.first - rows.first) * cols_;
      ranks_.send(to, std::as_bytes(std::span(numbers, size)));
    } else if (own == to) {
      ranks_.receive(rows.from, std::as_writable_bytes(std::span(part_from(moved.first), size)));
    }
  }
}

template <class T>
void SharedRows<T>::take_own(Index first, Index count, const T* numbers) {
  const RowRange own = common(ranks_.own(), first, count);
  if (own.first == own.last) return;
  std::copy_n(numbers + (own.first - first) * cols_, (own.last - own.first) * cols_,
              part_from(own.first));
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
