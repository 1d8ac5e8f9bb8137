#pragma once

// Ranks that are threads of one process, for tests.

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "parallel/ranks.hpp"

namespace attn::testing {

/// The messages between all ranks that have not arrived yet.
class Mailboxes {
 public:
  enum class Kind { message, gathered };

  void put(Kind kind, int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    boxes_[{kind, from, to}].emplace_back(bytes.begin(), bytes.end());
    arrived_.notify_all();
  }
  void take(Kind kind, int from, int to, std::span<std::byte> bytes) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& box = boxes_[{kind, from, to}];
    arrived_.wait(lock, [&] { return !box.empty(); });
    const std::vector<std::byte> message = std::move(box.front());
    box.pop_front();
    if (message.size() != bytes.size()) throw std::logic_error("a message has another size");
    std::copy(message.begin(), message.end(), bytes.begin());
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::tuple<Kind, int, int>, std::deque<std::vector<std::byte>>> boxes_;
};

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(Mailboxes& boxes, int own, int count) : boxes_(boxes), own_(own), count_(count) {}

  int own() const override { return own_; }
  int count() const override { return count_; }
  void send(int to, std::span<const std::byte> bytes) override {
    boxes_.put(Mailboxes::Kind::message, own_, to, bytes);
  }
  void receive(int from, std::span<std::byte> bytes) override {
    boxes_.take(Mailboxes::Kind::message, from, own_, bytes);
  }
  void gather(std::span<std::byte> bytes, std::span<const std::int64_t> ends) override {
    const auto part = [&](int rank) {
      const auto begin =
          static_cast<std::size_t>(rank == 0 ? 0 : ends[static_cast<std::size_t>(rank - 1)]);
      return bytes.subspan(begin,
                           static_cast<std::size_t>(ends[static_cast<std::size_t>(rank)]) - begin);
    };
    for (int rank = 0; rank < count_; ++rank) {
      if (rank != own_) boxes_.put(Mailboxes::Kind::gathered, own_, rank, part(own_));
    }
    for (int rank = 0; rank < count_; ++rank) {
      if (rank != own_) boxes_.take(Mailboxes::Kind::gathered, rank, own_, part(rank));
    }
  }

 private:
  Mailboxes& boxes_;
  int own_;
  int count_;
};

/// What compute() returns on each of `count` ranks.
template <class Compute>
auto on_ranks(int count, const Compute& compute) {
  Mailboxes boxes;
  std::vector<decltype(compute())> found(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int own = 0; own < count; ++own) {
    threads.emplace_back([&, own] {
      ThreadRanks ranks(boxes, own, count);
      const Ranks::Use use(&ranks);
      found[static_cast<std::size_t>(own)] = compute();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

}  // namespace attn::testing
