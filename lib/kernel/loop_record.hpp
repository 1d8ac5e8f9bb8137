#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::kernel {

/// What the long loops of a computation have found, so that the same computation, begun anew in
/// another process, takes it from there: with the same bits, as the loops that ranks divide
/// (rank_share.hpp) hand over all that later steps need. The earlier process is like another rank,
/// which has already done its items. What is between the loops is computed again.
///
/// Loops are known by their number in the order in which they begin, which must be the same in both
/// processes.
///
/// Ranks that compute together record together: all of them begin with the same record, and any of
/// them has what all have done.
class LoopRecord {
 public:
  struct Options {
    /// Shorter loops are not kept: they are computed again.
    double least_seconds = 0;
    /// Loops for which there is no room are not kept either.
    std::int64_t most_bytes = 0;
    /// Whether the record should be kept now; asked between items, by any thread. Among ranks all
    /// of them ask, at the same places, and get the same answer; it may throw Stopped there.
    std::function<bool()> is_due = {};
    /// Called with the record if so, by one thread at a time; absent: nothing is done. May throw.
    std::function<void()> keep = {};
    /// How many items a rank computes at a time.
    int threads = 1;
    /// Among ranks: gives up what they have not finished once it is set on one of them.
    const std::atomic<bool>* stop = nullptr;
    /// False: no loop is kept. Ranks then use `threads`, `stop` and `is_due` only, which may throw
    /// Stopped and whose answer is ignored.
    bool keeps = true;
  };
  explicit LoopRecord(Options options);
  ~LoopRecord();
  LoopRecord(const LoopRecord&) = delete;
  LoopRecord& operator=(const LoopRecord&) = delete;

  /// That of this thread; null: nothing is recorded. In the body of a parallel_for there is none.
  static LoopRecord* current() noexcept;

  /// Records the loops of this thread until the end of the scope; null: none.
  class Use {
   public:
    explicit Use(LoopRecord* record) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    LoopRecord* before_;
  };

  /// For the loops of a step of iterations whose state is kept. Until the end of the scope the
  /// loops of this thread are not recorded, but ranks give them up if they are asked to stop, as
  /// `record` would; null: they do not.
  class UseWithin;

  /// One loop, as it is kept.
  struct Kept {
    std::vector<std::uint8_t> done;                    ///< by item
    std::vector<std::byte> totals;                     ///< of the items done, or a state
    std::vector<std::vector<std::byte>> results = {};  ///< by call, of the items done in order

    std::int64_t bytes() const;
  };
  using Loops = std::map<Index, Kept>;  ///< by number

  /// Those kept so far. To be written, or to be set before the first loop begins.
  Loops& loops() { return loops_; }

  /// A loop that has begun; destroyed before the next one begins.
  class Loop;

 private:
  friend class Loop;
  friend class UseWithin;

  Options options_within() const;

  Options options_;
  Loops loops_;
  Index begun_ = 0;
};

class LoopRecord::UseWithin {
 public:
  explicit UseWithin(LoopRecord* record);
  ~UseWithin();
  UseWithin(const UseWithin&) = delete;
  UseWithin& operator=(const UseWithin&) = delete;

 private:
  std::unique_ptr<LoopRecord> within_;
  Use use_;
};

class LoopRecord::Loop {
 public:
  using Visit = std::function<void(std::span<std::byte> bytes)>;
  using Results = std::function<void(Index item, const Visit& visit)>;
  using Memory = std::function<void(const Visit& visit)>;

  /// Throws Error(input) if another loop was kept under its number.
  Loop(LoopRecord& record, Index items);

  /// The items that were not done before.
  const std::vector<Index>& left() const { return left_; }

  /// Runs `loop`, which computes the items left, and then `hand_over`, which calls results() and
  /// totals(). If `loop` is stopped, or the record is due, `hand_over` is called for the record
  /// alone: its calls then touch only results of items that are done, and totals.
  void run(const std::function<void()>& loop, const std::function<void()>& hand_over);

  /// An item is done: its results do not change any more.
  void done(Index item);

  /// Among ranks, in place of run: after each round, in which they have done the items left from
  /// place `first` to `last`, and after the last one. hand_over() is called as by run, and Stopped
  /// thrown if all ranks are to stop.
  void done_by_ranks(Index first, Index last);
  void round_done(const std::function<void()>& hand_over);
  void rounds_done(const std::function<void()>& hand_over);

  /// Among ranks, in place of round_done: not all items of the round are done. Throws Stopped.
  [[noreturn]] void given_up(const std::function<void()>& hand_over);

  /// How many items a rank computes at a time.
  int threads() const { return record_.options_.threads; }
  bool keeps() const { return record_.options_.keeps; }
  const std::atomic<bool>* stop() const { return record_.options_.stop; }

  /// Before the first of the items left is added to totals: takes those of the items before.
  void begin_totals(Index item, const Memory& memory);

  /// Takes the results of the items done before, and records those of all that are done.
  void results(const Results& results);
  /// The same for totals.
  void totals(const Memory& memory);

  /// For a loop that is not made of items: takes the state that is kept; false if there is none.
  bool take_state(const Memory& memory);
  /// Keeps that state in place of the one before.
  void keep_state(const Memory& memory);

 private:
  enum class Mode { running, partial, whole };
  void hand_over(Mode mode);
  void keep_if_due();
  bool is_long() const;
  void put(std::span<const std::byte> bytes, std::vector<std::byte>& to) const;

  LoopRecord& record_;
  Index number_;
  Index items_;
  Kept before_;
  std::vector<Index> left_;
  std::vector<std::uint8_t> done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::function<void()> hand_over_;
  Mode mode_ = Mode::running;
  Kept now_;              // while results are handed over
  std::size_t call_ = 0;  // of results
};

}  // namespace attn::kernel
