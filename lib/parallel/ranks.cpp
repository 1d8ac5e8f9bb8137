#include "parallel/ranks.hpp"

#include <utility>

namespace attn {
namespace {

thread_local Ranks* ranks_of_thread = nullptr;
thread_local auto rows_of_thread = Ranks::Rows::in_turn;

}  // namespace

Ranks* Ranks::current() noexcept { return ranks_of_thread; }

Ranks::Rows Ranks::rows() noexcept { return rows_of_thread; }

Ranks::Use::Use(Ranks* ranks, Rows rows) noexcept
    : before_(std::exchange(ranks_of_thread, ranks)),
      rows_before_(std::exchange(rows_of_thread, rows)) {}

Ranks::Use::~Use() {
  ranks_of_thread = before_;
  rows_of_thread = rows_before_;
}

}  // namespace attn
