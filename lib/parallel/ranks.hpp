#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace attn {

/// Processes that compute one problem together. All run the same program on the same input; long
/// loops are divided among them (rank_share.hpp), and each does everything else. All ranks must
/// call these functions in the same order. One call at a time, from any thread.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int own() const = 0;    ///< from 0
  virtual int count() const = 0;  ///< at least 1

  /// Messages from one rank to another arrive in the order in which they were sent. A call for
  /// which another rank never answers ends the process.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  virtual void receive(int from, std::span<std::byte> bytes) = 0;

  /// Called by all ranks with memory of the same size. Rank r has filled bytes [ends[r − 1],
  /// ends[r]), from 0 for r = 0; the call fills the parts of the other ranks.
  virtual void gather(std::span<std::byte> bytes, std::span<const std::int64_t> ends) = 0;

  /// Begins a computation that may be stopped. The flag is set once this rank is asked to stop.
  /// Soon afterwards the flags of all ranks are set, and waiting for a message throws Stopped.
  virtual void begin_stoppable(std::atomic<bool>&) {}

  /// Called by all ranks when they have computed or were stopped. Drops the messages under way.
  /// Returns whether any rank was stopped.
  virtual bool end_stoppable(bool stopped) { return stopped; }

  /// The ranks of this thread; null: the thread computes everything by itself. Null in the body of
  /// a parallel_for, so that loops inside another loop are not divided.
  static Ranks* current() noexcept;

  /// How the items of a loop over rows are divided among the ranks.
  enum class Rows {
    in_turn,       ///< every P-th item, as in all other loops, which mixes long and short items
    neighbouring,  ///< items side by side, so that a rank needs few rows in memory
  };

  /// How this thread cuts loops over rows among its ranks.
  static Rows rows() noexcept;

  /// Divides the loops of this thread among `ranks` until the end of the scope; null: loops are not
  /// divided.
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

/// Called by all ranks. Returns the value of each rank, by rank.
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

}  // namespace attn
