// Ranks over MPI: attn-mpi.so. All waiting for messages is by polling, so that it always ends and
// leaves the core to others.

#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mpi/rank_plugin.hpp"
#include "parallel/stop_flag.hpp"

namespace attn::mpi {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds to sleep while nothing has come for some time. Short waits only yield, so that a message
// between idle cores takes microseconds; longer ones sleep for a part of the time that has passed,
// at most a millisecond.
double sleep_after(double waited) { return waited < 1e-4 ? 0 : std::min(1e-3, waited / 16); }

void pause_after(double waited) {
  const double sleep = sleep_after(waited);
  if (sleep == 0) {
    sched_yield();
    return;
  }
  const timespec length{0, static_cast<long>(sleep * 1e9)};
  nanosleep(&length, nullptr);
}

// A thread that takes no signals, whose handlers end the process.
template <class Body>
std::thread thread_without_signals(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// Ends the process if it exists for too long: around calls of MPI that wait for all ranks.
class Watchdog {
 public:
  explicit Watchdog(const Settings& settings)
      : thread_(thread_without_signals([this, settings] {
          std::unique_lock<std::mutex> lock(mutex_);
          const std::chrono::duration<double> limit(settings.start_timeout_s);
          if (!over_.wait_for(lock, limit, [this] { return is_over_; })) {
            settings.on_stuck(settings.timeout_s);
          }
        })) {}
  ~Watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;  // last, since it uses the others
};

// MPI is promised one call at a time (MPI_THREAD_SERIALIZED), so each call holds a lock. Besides
// the threads that compute, a helper thread calls MPI: it moves messages on during the computation,
// and sees at once that another rank has failed.
class MpiRanks final : public ProcessRanks {
 public:
  explicit MpiRanks(const Settings& settings) : settings_(settings) {
    MPI_Comm_dup(MPI_COMM_WORLD, &data_);
    MPI_Comm_dup(MPI_COMM_WORLD, &notices_);
    MPI_Comm_dup(MPI_COMM_WORLD, &later_);
    now_ = data_;
    MPI_Comm_rank(data_, &own_);
    MPI_Comm_size(data_, &count_);
    helper_ = thread_without_signals([this] { help(); });
  }

  int own() const override { return own_; }
  int count() const override { return count_; }
  std::int64_t sent_bytes() const override { return sent_bytes_; }

  // The bytes are copied, so that the sender continues at once.
  void send(int to, std::span<const std::byte> bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for_pieces(bytes.size(), [&](std::size_t at, int size) {
      begin_send(bytes.subspan(at, static_cast<std::size_t>(size)), to);
    });
    sending_.notify_one();
  }

  void receive(int from, std::span<std::byte> bytes) override {
    for_pieces(bytes.size(), [&](std::size_t at, int size) {
      MPI_Request request = MPI_REQUEST_NULL;
      begin_receive(bytes.data() + at, size, from, request);
      wait(request, from);
    });
  }

  void begin_stoppable(std::atomic<bool>& asked) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked_ = &asked;
  }

  // All ranks come here, as a rank that waits for a stopped rank is stopped itself. They agree by
  // messages that cannot be confused with earlier ones.
  bool end_stoppable(bool stopped) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      // The helper may not have run since this rank was asked to stop.
      if (stopped) tell_stop();
      // Senders to a stopped rank wait until it has taken their messages.
      drops_ = stopped;
      asked_ = nullptr;
      now_ = later_;
    }
    bool any = false;
    for (const std::uint8_t one : gathered(*this, static_cast<std::uint8_t>(stopped))) {
      any = any || one != 0;
    }
    if (any) drop_messages();
    return any;
  }

  // Around a ring: in step s each rank passes on the part that it got in step s − 1, so that every
  // rank sends every part but one, whatever their number.
  void gather(std::span<std::byte> bytes, std::span<const std::int64_t> ends) override {
    const int right = (own_ + 1) % count_;
    const int left = (own_ + count_ - 1) % count_;
    const auto part = [&](int rank) {
      const std::int64_t begin = rank == 0 ? 0 : ends[static_cast<std::size_t>(rank) - 1];
      const std::int64_t end = ends[static_cast<std::size_t>(rank)];
      return bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    };
    for (int step = 0; step + 1 < count_; ++step) {
      exchange(part((own_ + count_ - step) % count_), right,
               part((own_ + 2 * count_ - step - 1) % count_), left);
    }
  }

  void fail(int status, const char* lines) override {
    notice_ = std::to_string(status) + "\n" + lines;
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      MPI_Isend(notice_.data(), static_cast<int>(notice_.size()), MPI_BYTE, 0, notice_tag, notices_,
                &request);
    }
    const Clock::time_point start = Clock::now();
    // If rank 0 does not answer either, the first of the others ends all.
    const double patience = settings_.timeout_s + 2 * (own_ - 1);
    for (double waited = 0; waited < patience; waited = seconds_since(start)) {
      is_complete(request);
      pause_after(waited);
    }
  }

  [[noreturn]] void abort(int status) override {
    mutex_.lock();
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status);
  }

  void finish() override {
    complete_sends();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
      sending_.notify_one();
    }
    helper_.join();
    const Watchdog watchdog(settings_);
    MPI_Finalize();
  }

 private:
  static constexpr int message_tag = 1;
  static constexpr int notice_tag = 2;
  static constexpr int stop_tag = 3;

  // A copy of the message under way.
  struct Message {
    int to = 0;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // The pieces of a message: body(first byte, size).
  template <class Body>
  void for_pieces(std::size_t size, const Body& body) const {
    for (std::size_t at = 0; at < size; at += settings_.piece_bytes) {
      body(at, static_cast<int>(std::min(settings_.piece_bytes, size - at)));
    }
  }

  // With the lock held. The number of the message.
  std::int64_t begin_send(std::span<const std::byte> bytes, int to) {
    if (outgoing_.empty()) last_sent_ = Clock::now();
    Message& message = outgoing_.emplace_back();
    message.to = to;
    message.bytes.assign(bytes.begin(), bytes.end());
    const int size = static_cast<int>(bytes.size());
    MPI_Isend(message.bytes.data(), size, MPI_BYTE, to, message_tag, now_, &message.request);
    sent_bytes_ += size;
    return begun_++;
  }

  void begin_receive(std::byte* bytes, int size, int from, MPI_Request& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    MPI_Irecv(bytes, size, MPI_BYTE, from, message_tag, now_, &request);
  }

  // Piece by piece; either side may have none left.
  void exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) {
    const std::size_t size = std::max(out.size(), in.size());
    const auto piece = [&](std::size_t whole, std::size_t at) {
      return static_cast<int>(std::min(settings_.piece_bytes, whole - std::min(whole, at)));
    };
    for (std::size_t at = 0; at < size; at += settings_.piece_bytes) {
      MPI_Request receiving = MPI_REQUEST_NULL;
      std::int64_t sent = -1;
      if (const int length = piece(in.size(), at); length > 0) {
        begin_receive(in.data() + at, length, from, receiving);
      }
      if (const int length = piece(out.size(), at); length > 0) {
        const std::lock_guard<std::mutex> lock(mutex_);
        sent = begin_send(out.subspan(at, static_cast<std::size_t>(length)), to);
      }
      wait(receiving, from);
      wait_until(to, [&] { return is_sent(sent); });
    }
  }

  void complete_sends() {
    const Clock::time_point start = Clock::now();
    for (;;) {
      int to = 0;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        drop_sent();
        if (outgoing_.empty()) return;
        to = outgoing_.front().to;
      }
      go_on_waiting(start, to);
    }
  }

  // With the lock held.
  void drop_sent() {
    while (!outgoing_.empty()) {
      int done = 0;
      MPI_Test(&outgoing_.front().request, &done, MPI_STATUS_IGNORE);
      if (done == 0) return;
      outgoing_.pop_front();
      ++sent_;
      last_sent_ = Clock::now();
    }
  }

  bool is_complete(MPI_Request& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

  bool is_sent(std::int64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    drop_sent();
    return sent_ > number;
  }

  bool is_stopped() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return asked_ != nullptr && asked_->load();
  }

  // Throws Stopped if this rank is asked to stop, or ends the process if the other one is lost.
  template <class Done>
  void wait_until(int rank, const Done& done) {
    const Clock::time_point start = Clock::now();
    while (!done()) {
      if (is_stopped()) throw Stopped();
      go_on_waiting(start, rank);
    }
  }

  // For a message to be received.
  void wait(MPI_Request& request, int rank) {
    try {
      wait_until(rank, [&] { return is_complete(request); });
    } catch (const Stopped&) {
      // The memory of the message is about to be freed.
      const std::lock_guard<std::mutex> lock(mutex_);
      if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      throw;
    }
  }

  // Called by all ranks. Stopped ranks take the messages that were sent to them and are no longer
  // needed, until all are taken.
  void drop_messages() {
    complete_sends();
    gathered(*this, std::uint8_t{0});
    const std::lock_guard<std::mutex> lock(mutex_);
    drops_ = false;
  }

  // Waits for a moment, or until the rank counts as lost.
  void go_on_waiting(Clock::time_point start, int rank) {
    const double waited = seconds_since(start);
    if (waited > settings_.timeout_s) settings_.on_lost(*this, rank, settings_.timeout_s);
    pause_after(waited);
  }

  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ending_) {
      if (own_ == 0) look_for_notice(lock);
      spread_stop();
      if (drops_) drop_message();
      drop_sent();
      const double sleep = outgoing_.empty() ? 0.02 : sleep_after(seconds_since(last_sent_));
      if (sleep > 0) {
        sending_.wait_for(lock, std::chrono::duration<double>(sleep));
      } else {
        lock.unlock();
        sched_yield();
        lock.lock();
      }
    }
  }

  // With the lock held: tells the other ranks once this rank is asked to stop, and learns when they
  // are.
  void spread_stop() {
    int arrived = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, stop_tag, notices_, &arrived, &status);
    if (arrived != 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, stop_tag, notices_, MPI_STATUS_IGNORE);
      hears_stop_ = true;
    }
    if (asked_ == nullptr) return;
    if (hears_stop_) asked_->store(true);
    if (asked_->load()) tell_stop();
  }

  // With the lock held; once.
  void tell_stop() {
    if (std::exchange(told_stop_, true)) return;
    for (int rank = 0; rank < count_; ++rank) {
      // The message has no bytes, and is sent at once.
      if (rank != own_) MPI_Send(nullptr, 0, MPI_BYTE, rank, stop_tag, notices_);
    }
  }

  // With the lock held.
  void drop_message() {
    int arrived = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, message_tag, data_, &arrived, &status);
    if (arrived == 0) return;
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    MPI_Recv(bytes.data(), size, MPI_BYTE, status.MPI_SOURCE, message_tag, data_,
             MPI_STATUS_IGNORE);
  }

  void look_for_notice(std::unique_lock<std::mutex>& lock) {
    int arrived = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, notice_tag, notices_, &arrived, &status);
    if (arrived == 0) return;
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    std::string text(static_cast<std::size_t>(size), ' ');
    MPI_Recv(text.data(), size, MPI_BYTE, status.MPI_SOURCE, notice_tag, notices_,
             MPI_STATUS_IGNORE);
    lock.unlock();
    settings_.on_failed(*this, status.MPI_SOURCE, std::stoi(text),
                        text.c_str() + text.find('\n') + 1);
    lock.lock();
  }

  Settings settings_;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm notices_ = MPI_COMM_NULL;
  MPI_Comm later_ = MPI_COMM_NULL;  // for messages after a stoppable computation
  MPI_Comm now_ = MPI_COMM_NULL;    // for messages that are sent now
  int own_ = 0;
  int count_ = 1;
  std::int64_t sent_bytes_ = 0;

  std::mutex mutex_;  // held during calls of MPI, and where the members below change
  std::deque<Message> outgoing_;
  std::int64_t begun_ = 0;  // messages,
  std::int64_t sent_ = 0;   // and those that have left
  std::atomic<bool>* asked_ = nullptr;
  bool hears_stop_ = false;
  bool told_stop_ = false;
  bool drops_ = false;
  Clock::time_point last_sent_;  // when a message was complete, or began while there was none
  std::condition_variable sending_;
  bool ending_ = false;
  std::string notice_;
  std::thread helper_;
};

}  // namespace
}  // namespace attn::mpi

extern "C" attn::mpi::ProcessRanks* attn_start_ranks(const attn::mpi::Settings* settings) {
  const attn::mpi::Watchdog watchdog(*settings);
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED) return nullptr;
  return new attn::mpi::MpiRanks(*settings);
}
