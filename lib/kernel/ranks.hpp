#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace attn::kernel {

/// Processes that compute one problem together. All of them run the same program on the same
/// input; long loops are divided among them (rank_share.hpp), and everything else is done by each.
/// So all ranks call these functions in the same order. One call at a time, from any thread.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int own() const = 0;    ///< from 0
  virtual int count() const = 0;  ///< at least 1

  /// Messages from one rank to another arrive in the order in which they were sent. A call for
  /// which another rank never answers ends the process.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  virtual void receive(int from, std::span<std::byte> bytes) = 0;

  /// Called by all ranks with memory of the same size, of which rank r has filled its part: bytes
  /// [ends[r − 1], ends[r]), from 0 for r = 0. Fills the parts of the others.
  virtual void gather(std::span<std::byte> bytes, std::span<const std::int64_t> ends) = 0;

  /// A computation begins that may be stopped. The flag is set once this rank is asked to stop.
  /// Soon afterwards those of all ranks are set, and what waits for a message throws Stopped.
  virtual void begin_stoppable(std::atomic<bool>&) {}

  /// Called by all ranks when they have computed, or have been stopped: whether any was stopped.
  /// Messages under way are dropped then.
  virtual bool end_stoppable(bool stopped) { return stopped; }

  /// Those of this thread; null: it computes everything by itself. In the body of a parallel_for
  /// there are none, so that a loop inside another one is not divided.
  static Ranks* current() noexcept;

  /// Which items of a loop over rows each rank has.
  enum class Rows {
    in_turn,       ///< every P-th one, as of all other loops: of long and short ones alike
    neighbouring,  ///< those side by side, so that a rank needs few rows in memory
  };

  /// How this thread cuts loops over rows among its ranks.
  static Rows rows() noexcept;

  /// Divides the loops of this thread among `ranks` until the end of the scope; null: among none.
  class Use {
   public:
    explicit Use(Ranks* ranks, Rows rows = Rows::in_turn) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Ranks* before_;
    Rows rows_before_;
  };
};

/// Called by all ranks: what each of them has, by rank.
template <class T>
std::vector<T> gathered(Ranks& ranks, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(ranks.count()));
  all[static_cast<std::size_t>(ranks.own())] = own;
  std::vector<std::int64_t> ends;
  for (std::size_t rank = 1; rank <= all.size(); ++rank) {
    ends.push_back(static_cast<std::int64_t>(rank * sizeof(T)));
  }
  ranks.gather(std::as_writable_bytes(std::span(all)), ends);
  return all;
}

}  // namespace attn::kernel
