// A plug-in in place of attn-mpi.so, for tests: passes messages on to the true one as over a slower
// network, so that the time of a run can be compared with MATHEMATICS.md §10. Its settings are
// variables of the environment:
//
//     SLOW_RANKS_PLUGIN    the true plug-in
//     SLOW_RANKS_LATENCY   seconds from the end of a message at its sender to its arrival
//     SLOW_RANKS_RATE      byte/s of a sender; 0: any
//     SLOW_RANKS_PIECE     bytes in a message of MPI; 0: as usual
//     SLOW_RANKS_START     seconds before MPI starts

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "mpi/rank_plugin.hpp"

namespace {

using attn::mpi::ProcessRanks;

double setting(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atof(text);
}

// All processes of a machine have the same.
double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void wait_until(double time) {
  timespec end{};
  end.tv_sec = static_cast<time_t>(time);
  end.tv_nsec = static_cast<long>(1e9 * (time - static_cast<double>(end.tv_sec)));
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) != 0) continue;
}

// Each message begins with the time at which it arrives.
class SlowRanks final : public ProcessRanks {
 public:
  explicit SlowRanks(ProcessRanks& ranks) : ranks_(ranks) {}

  int own() const override { return ranks_.own(); }
  int count() const override { return ranks_.count(); }
  std::int64_t sent_bytes() const override { return sent_bytes_; }

  void send(int to, std::span<const std::byte> bytes) override {
    const double seconds = rate_ > 0 ? static_cast<double>(bytes.size()) / rate_ : 0;
    free_ = std::max(free_, now()) + seconds;
    const double arrival = free_ + latency_;
    message_.resize(sizeof(arrival) + bytes.size());
    std::memcpy(message_.data(), &arrival, sizeof(arrival));
    std::copy(bytes.begin(), bytes.end(), message_.begin() + sizeof(arrival));
    sent_bytes_ += static_cast<std::int64_t>(bytes.size());
    ranks_.send(to, message_);
  }

  void receive(int from, std::span<std::byte> bytes) override {
    double arrival = 0;
    message_.resize(sizeof(arrival) + bytes.size());
    ranks_.receive(from, message_);
    std::memcpy(&arrival, message_.data(), sizeof(arrival));
    std::copy(message_.begin() + sizeof(arrival), message_.end(), bytes.begin());
    wait_until(arrival);
  }

  void gather(std::span<std::byte> bytes, std::span<const std::int64_t> ends) override {
    const int others = count() - 1;
    const auto part = [&](int rank) {
      const int n = rank % count();
      const std::int64_t begin = n == 0 ? 0 : ends[static_cast<std::size_t>(n) - 1];
      return bytes.subspan(static_cast<std::size_t>(begin),
                           static_cast<std::size_t>(ends[static_cast<std::size_t>(n)] - begin));
    };
    for (int step = 0; step < others; ++step) {
      send((own() + 1) % count(), part(own() + count() - step));
      receive((own() + others) % count(), part(own() + 2 * count() - step - 1));
    }
  }

  void begin_stoppable(std::atomic<bool>& asked) override { ranks_.begin_stoppable(asked); }
  bool end_stoppable(bool stopped) override { return ranks_.end_stoppable(stopped); }

  void fail(int status, const char* lines) override { ranks_.fail(status, lines); }
  [[noreturn]] void abort(int status) override {
    ranks_.abort(status);
    _Exit(status);  // unreachable
  }
  void finish() override { ranks_.finish(); }

 private:
  ProcessRanks& ranks_;
  const double latency_ = setting("SLOW_RANKS_LATENCY");
  const double rate_ = setting("SLOW_RANKS_RATE");
  double free_ = 0;  // when the sender's last message has left it
  std::vector<std::byte> message_;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace

extern "C" ProcessRanks* attn_start_ranks(const attn::mpi::Settings* settings) {
  wait_until(now() + setting("SLOW_RANKS_START"));
  void* const library = dlopen(std::getenv("SLOW_RANKS_PLUGIN"), RTLD_NOW | RTLD_GLOBAL);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, "attn_start_ranks");
  if (symbol == nullptr) return nullptr;
  ProcessRanks* (*start)(const attn::mpi::Settings*) = nullptr;
  std::memcpy(&start, &symbol, sizeof(start));
  attn::mpi::Settings own = *settings;
  const auto piece = static_cast<std::size_t>(setting("SLOW_RANKS_PIECE"));
  if (piece > 0) own.piece_bytes = piece;
  ProcessRanks* const ranks = start(&own);
  return ranks == nullptr ? nullptr : new SlowRanks(*ranks);
}
