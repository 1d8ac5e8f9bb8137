#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "kernel/ranks.hpp"
#include "pass/row_selection.hpp"
#include "tensor/buffer.hpp"
#include "tensor/view.hpp"

namespace attn::tools {

/// Neighbouring rows of a matrix, whose numbers one rank has.
template <class T>
struct GatheredRows {
  int from = 0;  ///< the rank
  Index first = 0;
  Index count = 0;
  const T* numbers = nullptr;  ///< in that rank

  GatheredRows shifted(Index by) const { return {from, first + by, count, numbers}; }
};

/// Takes rows of a result of a head. All ranks call it, with the same rows in the same order, at
/// least once: there may be no rows.
template <class T>
using ShowRows = std::function<void(const GatheredRows<T>& rows)>;

/// Called by all ranks, with rows of `width` numbers: they go to the ranks that keep them, into
/// `kept`, the own ones. Rank r keeps lines(r).
template <class T, class Lines>
void send_to_keepers(kernel::Ranks& ranks, const GatheredRows<T>& rows, Index width,
                     const Lines& lines, T* kept) {
  const int own = ranks.own();
  for (int to = 0; to < ranks.count(); ++to) {
    const RowRange keeps = lines(to);
    const Index first = std::max(keeps.first, rows.first);
    const Index last = std::min(keeps.last, rows.first + rows.count);
    if (first >= last) continue;
    const auto size = static_cast<std::size_t>((last - first) * width);
    if (own == rows.from) {
      const std::span<const T> sent(rows.numbers + (first - rows.first) * width, size);
      if (own == to) {
        std::copy(sent.begin(), sent.end(), kept + (first - keeps.first) * width);
      } else {
        ranks.send(to, std::as_bytes(sent));
      }
    } else if (own == to) {
      const std::span<T> received(kept + (first - keeps.first) * width, size);
      ranks.receive(rows.from, std::as_writable_bytes(received));
    }
  }
}

/// Called by all ranks, with rows of `width` numbers: returns these in rank 0, to which they are
/// sent into `room` if another rank has them; null in other ranks. That rank waits until rank 0
/// asks for them: messages that nobody takes yet are copies in memory.
template <class T>
const T* at_first_rank(kernel::Ranks& ranks, const GatheredRows<T>& rows, Index width,
                       Buffer<T>& room) {
  const auto size = static_cast<std::size_t>(rows.count * width);
  if (rows.from == 0) return ranks.own() == 0 ? rows.numbers : nullptr;
  std::byte request{};
  if (ranks.own() == rows.from) {
    ranks.receive(0, std::span(&request, 1));
    ranks.send(0, std::as_bytes(std::span(rows.numbers, size)));
  }
  if (ranks.own() > 0) return nullptr;
  ranks.send(rows.from, std::span(&request, 1));
  room.reserve(rows.count * width);
  ranks.receive(rows.from, std::as_writable_bytes(std::span(room.data(), size)));
  return room.data();
}

}  // namespace attn::tools
