#include "kernel/loop_record.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "attnkit/error.hpp"
#include "kernel/ranks.hpp"
#include "kernel/stop_flag.hpp"

namespace attn::kernel {
namespace {

thread_local LoopRecord* record_of_thread = nullptr;

[[noreturn]] void refuse() {
  throw Error(Failure::input, "what is kept of a loop does not fit this computation");
}

// Reads bytes in order.
class Reader {
 public:
  explicit Reader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}

  std::span<const std::byte> next(std::size_t count) {
    if (bytes_.size() - at_ < count) refuse();
    const std::span<const std::byte> found(bytes_.data() + at_, count);
    at_ += count;
    return found;
  }

  // All bytes must have been read.
  void finish() const {
    if (at_ != bytes_.size()) refuse();
  }

 private:
  const std::vector<std::byte>& bytes_;
  std::size_t at_ = 0;
};

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace

LoopRecord::LoopRecord(Options options) : options_(std::move(options)) {}

LoopRecord::~LoopRecord() = default;

LoopRecord* LoopRecord::current() noexcept { return record_of_thread; }

LoopRecord::Use::Use(LoopRecord* record) noexcept
    : before_(std::exchange(record_of_thread, record)) {}

LoopRecord::Use::~Use() { record_of_thread = before_; }

LoopRecord::Options LoopRecord::options_within() const {
  Options within;
  within.is_due = options_.is_due;
  within.threads = options_.threads;
  within.stop = options_.stop;
  within.keeps = false;
  return within;
}

// A process without ranks stops in any loop (stop_flag.hpp).
LoopRecord::UseWithin::UseWithin(LoopRecord* record)
    : within_(record != nullptr && Ranks::current() != nullptr
                  ? std::make_unique<LoopRecord>(record->options_within())
                  : nullptr),
      use_(within_.get()) {}

LoopRecord::UseWithin::~UseWithin() = default;

std::int64_t LoopRecord::Kept::bytes() const {
  std::size_t sum = done.size() + totals.size();
  for (const auto& one : results) sum += one.size();
  return static_cast<std::int64_t>(sum);
}

LoopRecord::Loop::Loop(LoopRecord& record, Index items)
    : record_(record),
      number_(record.begun_++),
      items_(items),
      done_(static_cast<std::size_t>(items), 0) {
  if (const auto found = record.loops_.find(number_); found != record.loops_.end()) {
    if (found->second.done.size() != done_.size()) refuse();
    before_ = found->second;
    done_ = before_.done;
  }
  for (Index item = 0; item < items; ++item) {
    if (done_[static_cast<std::size_t>(item)] == 0) left_.push_back(item);
  }
}

void LoopRecord::Loop::run(const std::function<void()>& loop,
                           const std::function<void()>& hand_over) {
  hand_over_ = hand_over;
  try {
    loop();
  } catch (const Stopped&) {
    if (is_long()) this->hand_over(Mode::partial);
    throw;
  }
  rounds_done(hand_over);
}

void LoopRecord::Loop::done_by_ranks(Index first, Index last) {
  for (Index n = first; n < last; ++n) {
    done_[static_cast<std::size_t>(left_[static_cast<std::size_t>(n)])] = 1;
  }
}

void LoopRecord::Loop::round_done(const std::function<void()>& hand_over) {
  hand_over_ = hand_over;
  try {
    const bool due = record_.options_.is_due && record_.options_.is_due();
    if (!due || !keeps()) return;
  } catch (const Stopped&) {
    if (keeps()) this->hand_over(Mode::partial);
    throw;
  }
  this->hand_over(Mode::partial);
  if (record_.options_.keep) record_.options_.keep();
}

void LoopRecord::Loop::rounds_done(const std::function<void()>& hand_over) {
  if (!keeps()) return hand_over();
  hand_over_ = hand_over;
  if (is_long()) {
    this->hand_over(Mode::whole);
  } else {
    hand_over();  // for what does not concern the record
  }
  hand_over_ = nullptr;
  before_ = {};
  keep_if_due();
}

void LoopRecord::Loop::given_up(const std::function<void()>& hand_over) {
  if (!keeps()) throw Stopped();
  hand_over_ = hand_over;
  // Without an item more than before, what is kept of the loop stays.
  if (done_ != before_.done && done_ != std::vector<std::uint8_t>(done_.size(), 0)) {
    this->hand_over(Mode::partial);
  }
  throw Stopped();
}

bool LoopRecord::Loop::is_long() const {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  return !before_.done.empty() || spent.count() >= record_.options_.least_seconds;
}

void LoopRecord::Loop::done(Index item) {
  const std::lock_guard<std::mutex> lock(mutex_);
  done_[static_cast<std::size_t>(item)] = 1;
  const bool due = record_.options_.is_due && record_.options_.is_due();
  if (!due || !keeps()) return;
  hand_over(Mode::partial);
  if (record_.options_.keep) record_.options_.keep();
}

void LoopRecord::Loop::keep_if_due() {
  const bool due = record_.options_.is_due && record_.options_.is_due();
  if (due && record_.options_.keep) record_.options_.keep();
}

void LoopRecord::Loop::hand_over(Mode mode) {
  now_ = {};
  now_.done = done_;
  call_ = 0;
  mode_ = mode;
  hand_over_();
  mode_ = Mode::running;
  // Loops before this one are worth more: without them it would not be reached at once.
  std::int64_t others = 0;
  for (const auto& [number, kept] : record_.loops_) {
    if (number != number_) others += kept.bytes();
  }
  if (others + now_.bytes() <= record_.options_.most_bytes) {
    record_.loops_[number_] = std::move(now_);
  }
  now_ = {};
}

void LoopRecord::Loop::begin_totals(Index item, const Memory& memory) {
  if (before_.done.empty() || item != left_.front()) return;
  Reader reader(before_.totals);
  memory([&](std::span<std::byte> bytes) { copy(reader.next(bytes.size()), bytes); });
}

// A record without room takes no memory.
void LoopRecord::Loop::put(std::span<const std::byte> bytes, std::vector<std::byte>& to) const {
  if (record_.options_.most_bytes > 0) to.insert(to.end(), bytes.begin(), bytes.end());
}

void LoopRecord::Loop::results(const Results& results) {
  if (mode_ == Mode::running) return;
  static const std::vector<std::byte> nothing;
  const bool known = !before_.done.empty();
  if (known && call_ >= before_.results.size()) refuse();
  Reader reader(known ? before_.results[call_] : nothing);
  ++call_;
  std::vector<std::byte>& kept = now_.results.emplace_back();
  for (Index item = 0; item < items_; ++item) {
    const auto at = static_cast<std::size_t>(item);
    if (done_[at] == 0) continue;
    const bool was_done = known && before_.done[at] != 0;
    results(item, [&](std::span<std::byte> bytes) {
      if (was_done) {
        const std::span<const std::byte> found = reader.next(bytes.size());
        if (mode_ == Mode::whole) copy(found, bytes);
        put(found, kept);
      } else {
        put(bytes, kept);
      }
    });
  }
  reader.finish();
}

void LoopRecord::Loop::totals(const Memory& memory) {
  if (mode_ == Mode::running) return;
  const bool untouched = !before_.done.empty() &&
                         (left_.empty() || done_[static_cast<std::size_t>(left_.front())] == 0);
  if (untouched) {
    Reader reader(before_.totals);
    memory([&](std::span<std::byte> bytes) {
      const std::span<const std::byte> found = reader.next(bytes.size());
      if (mode_ == Mode::whole) copy(found, bytes);
      put(found, now_.totals);
    });
    return;
  }
  memory([&](std::span<std::byte> bytes) { put(bytes, now_.totals); });
}

bool LoopRecord::Loop::take_state(const Memory& memory) {
  if (before_.totals.empty()) return false;
  Reader reader(before_.totals);
  memory([&](std::span<std::byte> bytes) { copy(reader.next(bytes.size()), bytes); });
  return true;
}

void LoopRecord::Loop::keep_state(const Memory& memory) {
  hand_over_ = [&] { totals(memory); };
  before_ = {};
  hand_over(Mode::partial);
  hand_over_ = nullptr;
  keep_if_due();
}

}  // namespace attn::kernel
