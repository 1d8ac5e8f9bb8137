#include "parallel/parallel_for.hpp"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace attn;

namespace {

// doctest's checks are not thread-safe: bodies count, checks follow.
using Counts = std::vector<std::atomic<int>>;

bool all_are(const Counts& counts, int value) {
  for (const auto& count : counts) {
    if (count != value) return false;
  }
  return true;
}

// Waits for another thread, but not forever: a machine may grant only one thread.
template <class Condition>
bool becomes_true(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

std::string thrown_by(const std::vector<Index>& failing, Index count, int threads) {
  try {
    parallel_for(count, threads, [&](Index item, int) {
      if (std::find(failing.begin(), failing.end(), item) != failing.end()) {
        throw std::runtime_error(std::to_string(item));
      }
    });
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("each item runs exactly once, and a worker runs one item at a time") {
  for (const int threads : {-1, 0, 1, 2, 3, 8}) {
    for (const Index count : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      CAPTURE(threads);
      CAPTURE(count);
      Counts done(static_cast<std::size_t>(count));
      Counts busy(static_cast<std::size_t>(std::max(threads, 1)));
      std::atomic<int> wrong{0};
      parallel_for(count, threads, [&](Index item, int worker) {
        if (item < 0 || item >= count || worker < 0 || worker >= std::max(threads, 1)) {
          ++wrong;
          return;
        }
        auto& mine = busy[static_cast<std::size_t>(worker)];
        if (mine.exchange(1) != 0) ++wrong;
        ++done[static_cast<std::size_t>(item)];
        if (item % 100 == 0) std::this_thread::yield();
        mine = 0;
      });
      CHECK(wrong == 0);
      CHECK(all_are(done, 1));
    }
  }
}

TEST_CASE("several items run at once if there are enough threads") {
  // Each of two items waits until the other has begun.
  std::atomic<int> begun{0};
  std::atomic<int> met{0};
  parallel_for(2, 2, [&](Index, int) {
    ++begun;
    if (becomes_true([&] { return begun == 2; })) ++met;
  });
  CHECK(met == 2);
}

TEST_CASE("a single thread runs in order, on the caller's thread") {
  std::vector<Index> order;
  bool here = true;
  const auto caller = std::this_thread::get_id();
  parallel_for(5, 1, [&](Index item, int worker) {
    order.push_back(item);
    here = here && worker == 0 && std::this_thread::get_id() == caller;
  });
  CHECK(order == std::vector<Index>{0, 1, 2, 3, 4});
  CHECK(here);
}

TEST_CASE("the exception of the lowest failing item is rethrown") {
  std::vector<Index> all(200);
  for (std::size_t n = 0; n < all.size(); ++n) all[n] = static_cast<Index>(n);
  for (const int threads : {1, 2, 4}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      CHECK(thrown_by({7, 3, 199}, 200, threads) == "3");
      CHECK(thrown_by({198, 199}, 200, threads) == "198");
      CHECK(thrown_by(all, 200, threads) == "0");
      CHECK(thrown_by({}, 200, threads) == "nothing");
    }
  }
}

TEST_CASE("a late exception of a lower item takes precedence over an early one of a higher item") {
  bool together = true;
  for (int repeat = 0; repeat < 20 && together; ++repeat) {
    std::atomic<bool> thrown{false};
    std::string caught;
    try {
      parallel_for(2, 2, [&](Index item, int) {
        if (item == 0) {
          together = becomes_true([&] { return thrown.load(); });
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          throw std::runtime_error("low");
        }
        thrown = true;
        throw std::runtime_error("high");
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    CHECK(caught == "low");
  }
}

TEST_CASE("an exception ends the loop") {
  for (const int threads : {1, 2, 4}) {
    constexpr int count = 2000;
    std::atomic<bool> thrown{false};
    std::atomic<int> begun{0};
    CHECK_THROWS_AS(parallel_for(count, threads,
                                 [&](Index item, int) {
                                   ++begun;
                                   if (item == 0) {
                                     thrown = true;
                                     throw std::runtime_error("first");
                                   }
                                   becomes_true([&] { return thrown.load(); });
                                   std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                 }),
                    std::runtime_error);
    CHECK(begun < count);
  }
}

TEST_CASE("a loop within a loop runs only on its caller's thread, in order") {
  // OpenMP's own settings must not be the reason that the inner loop has no threads.
  const int levels = omp_get_max_active_levels();
  omp_set_max_active_levels(2);
  constexpr Index outer = 6;
  constexpr Index inner = 50;
  Counts done(static_cast<std::size_t>(outer * inner));
  std::atomic<int> wrong{0};
  parallel_for(outer, 3, [&](Index item, int) {
    const auto caller = std::this_thread::get_id();
    std::atomic<Index> next{0};
    parallel_for(inner, 3, [&](Index at, int worker) {
      if (at != next++ || worker != 0 || std::this_thread::get_id() != caller) ++wrong;
      ++done[static_cast<std::size_t>(item * inner + at)];
    });
  });
  omp_set_max_active_levels(levels);
  CHECK(wrong == 0);
  CHECK(all_are(done, 1));
}

TEST_CASE("an exception passes through two nested loops") {
  std::string caught;
  try {
    parallel_for(4, 2, [](Index item, int) {
      parallel_for(4, 2, [&](Index at, int) {
        if (item >= 1 && at >= 2) throw std::runtime_error(std::to_string(10 * item + at));
      });
    });
  } catch (const std::runtime_error& error) {
    caught = error.what();
  }
  CHECK(caught == "12");
}
