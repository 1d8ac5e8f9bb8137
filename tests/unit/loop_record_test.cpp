// A computation that is stopped, and goes on from what its loops have found, has the same bits,
// also if ranks divide it.

#include "kernel/loop_record.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "attnkit/error.hpp"
#include "kernel/in_order.hpp"
#include "kernel/parallel.hpp"
#include "kernel/rank_share.hpp"
#include "kernel/stop_flag.hpp"
#include "shared_run.hpp"
#include "thread_ranks.hpp"

using namespace attn;
using namespace attn::testing;
using kernel::LoopRecord;

namespace {

// Runs compute() with a record that begins with `loops`, until it is asked for the `most`-th time
// whether it is due. Nothing: it was stopped. `loops` is then what it leaves: the record as it was
// at the last time that it was due, if `killed`.
template <class Compute>
auto run_for(int most, bool killed, LoopRecord::Loops& loops, const Compute& compute) {
  std::atomic<bool> stop = false;
  std::atomic<int> asked = 0;
  LoopRecord::Loops kept = loops;
  LoopRecord* open = nullptr;
  LoopRecord::Options options;
  options.most_bytes = 1 << 30;
  options.is_due = [&] {
    if (++asked >= most) stop = true;
    return true;
  };
  options.keep = [&] { kept = open->loops(); };
  LoopRecord record(options);
  open = &record;
  record.loops() = loops;
  const LoopRecord::Use use(&record);
  const kernel::StopFlag::Use obey(&stop);
  std::optional<decltype(compute())> found;
  try {
    found = compute();
  } catch (const kernel::Stopped&) {
    loops = killed ? kept : record.loops();
  }
  return found;
}

// The same on ranks, which are asked together. What they keep is what rank 0 has kept. The last of
// `giving_up` ranks does not wait for the end of a round.
template <class Compute>
auto run_on_ranks_for(int count, int threads, int most, bool killed, int giving_up,
                      LoopRecord::Loops& loops, const Compute& compute) {
  LoopRecord::Loops left;
  const auto found = on_ranks(count, [&] {
    const int own = kernel::Ranks::current()->own();
    const bool first = own == 0;
    LoopRecord::Loops kept = loops;
    LoopRecord* open = nullptr;
    int asked = 0;
    std::atomic<bool> stop = false;
    LoopRecord::Options options;
    options.most_bytes = first ? 1 << 30 : 0;
    options.threads = threads;
    options.stop = &stop;
    options.is_due = [&] {
      if (++asked >= most && giving_up == 0) throw kernel::Stopped();
      stop = asked >= most && own == giving_up - 1;
      return true;
    };
    if (first) options.keep = [&] { kept = open->loops(); };
    LoopRecord record(options);
    open = &record;
    record.loops() = loops;
    const LoopRecord::Use use(&record);
    std::optional<decltype(compute())> result;
    try {
      result = compute();
    } catch (const kernel::Stopped&) {
      if (first) left = killed ? kept : record.loops();
    }
    return result;
  });
  if (!found.front()) loops = left;
  return found;
}

// Stops compute(threads) after every few items, until it finishes.
template <class Compute, class Same>
void check_stops(const Compute& compute, const Same& same) {
  const auto alone = compute(2);
  for (const int threads : {1, 3}) {
    for (const bool killed : {false, true}) {
      CAPTURE(threads);
      CAPTURE(killed);
      LoopRecord::Loops loops;
      int stops = 0;
      for (;; ++stops) {
        REQUIRE(stops < 1000);
        const auto found = run_for(1 + stops, killed, loops, [&] { return compute(threads); });
        if (!found) continue;
        CHECK(same(*found, alone));
        break;
      }
      // Several threads may have begun all items by then.
      CHECK((stops > 0 || threads > 1));
    }
  }
}

// Stops compute(threads) again and again on ranks, and in between by one process; all ranks find
// the same.
template <class Compute, class Same>
void check_stops_on_ranks(const Compute& compute, const Same& same) {
  const auto alone = compute(2);
  for (const bool killed : {false, true}) {
    CAPTURE(killed);
    const int threads = killed ? 1 : 2;
    LoopRecord::Loops loops;
    bool finished = false;
    for (int stops = 0; !finished; ++stops) {
      REQUIRE(stops < 1000);
      if (const int count = stops % 3; count > 0) {
        const int giving_up = stops / 3 % (2 + count);  // none, or one of them
        for (const auto& found : run_on_ranks_for(1 + count, threads, 1 + stops, killed, giving_up,
                                                  loops, [&] { return compute(threads); })) {
          if (found) CHECK(same(*found, alone));
          finished = found.has_value();
        }
      } else if (const auto found =
                     run_for(1 + stops, killed, loops, [&] { return compute(threads); })) {
        CHECK(same(*found, alone));
        finished = true;
      }
      if (finished) CHECK(stops > 0);
    }
  }
}

}  // namespace

TEST_CASE("items that are done are not computed again") {
  LoopRecord::Loops loops;
  Index computed = 0;
  int stops = 0;
  const auto compute = [&] {
    std::vector<Index> squares(10, -1);
    const kernel::RankShare share(10, nullptr, LoopRecord::current());
    share.run(
        [&] {
          kernel::parallel_for(share.own_count(), 1, [&](Index n, int) {
            const Index item = share.own_item(n);
            squares[static_cast<std::size_t>(item)] = item * item;
            ++computed;
            share.done(item);
          });
        },
        [&] { share.complete_numbers(std::span(squares), [](Index item) { return item; }); });
    return squares;
  };
  for (;; ++stops) {
    const auto found = run_for(3, stops % 2 == 1, loops, compute);
    if (!found) continue;
    CHECK(*found == std::vector<Index>{0, 1, 4, 9, 16, 25, 36, 49, 64, 81});
    break;
  }
  CHECK(computed == 10);
  CHECK(stops == 3);
}

TEST_CASE("ranks that give up a round keep all items before the first that is left") {
  constexpr Index items = 29;
  struct Found {
    std::vector<Index> squares = std::vector<Index>(items, -1);
    std::uint64_t total = 0;  // Σ_n 3²⁸⁻ⁿ n² mod 2⁶⁴, which depends on the order of the items

    bool operator==(const Found&) const = default;
  };
  // One of three ranks stops at an item, if that is one.
  const auto run = [&](Index stopping, int threads, bool in_turn, LoopRecord::Loops& loops) {
    LoopRecord::Loops left;
    const auto all = on_ranks(3, [&]() -> std::optional<Found> {
      const bool first = kernel::Ranks::current()->own() == 0;
      std::atomic<bool> stop = false;
      LoopRecord::Options options;
      options.most_bytes = first ? 1 << 20 : 0;
      options.threads = threads;
      options.stop = &stop;
      LoopRecord record(options);
      record.loops() = loops;
      Found found;
      const kernel::RankShare share(items, kernel::Ranks::current(), &record);
      const kernel::RankShare::Memory totals = [&](const kernel::RankShare::Visit& visit) {
        visit(std::as_writable_bytes(std::span(&found.total, 1)));
      };
      const auto make = [&](Index n, Index) {
        const Index item = share.own_item(n);
        if (item == stopping) stop = true;
        kernel::stop_if_asked();
        found.squares[static_cast<std::size_t>(item)] = item * item;
      };
      const auto add = [&](Index n, Index, kernel::SumPart) {
        const Index item = share.own_item(n);
        if (!in_turn) return share.done(item);
        share.add_in_turn(item, totals, [&] {
          found.total = 3 * found.total + static_cast<std::uint64_t>(item * item);
        });
      };
      const auto hand_over = [&] {
        share.complete_numbers(std::span(found.squares), [](Index item) { return item; });
        if (in_turn) share.take_totals(totals);
      };
      try {
        share.run([&] { kernel::add_in_order(share.own_count(), threads, 1, make, add); },
                  hand_over, in_turn ? totals : nullptr);
        return found;
      } catch (const kernel::Stopped&) {
        if (first) left = record.loops();
        return std::nullopt;
      }
    });
    loops = left;
    return all;
  };
  for (const int threads : {1, 2}) {
    for (const bool in_turn : {false, true}) {
      LoopRecord::Loops none;
      const Found whole = run(-1, threads, in_turn, none).front().value();
      for (Index stopping = 0; stopping < items; ++stopping) {
        CAPTURE(threads);
        CAPTURE(in_turn);
        CAPTURE(stopping);
        LoopRecord::Loops loops;
        for (const auto& found : run(stopping, threads, in_turn, loops)) CHECK(!found);
        if (!loops.empty()) {
          const std::vector<std::uint8_t>& done = loops[0].done;
          const Index kept = std::find(done.begin(), done.end(), 0) - done.begin();
          CHECK(std::count(done.begin(), done.end(), 1) == kept);
          // Another thread of the rank may hold an item before.
          CHECK((threads == 1 ? kept == stopping : kept <= stopping));
        } else if (threads == 1) {
          CHECK(stopping == 0);
        }
        for (const auto& found : run(-1, threads, in_turn, loops)) CHECK(found == whole);
      }
    }
  }
}

TEST_CASE("ranks give up loops within a step, and record none of them") {
  constexpr Index none = -1;
  using Rows = kernel::Ranks::Rows;
  for (const Index items : {Index{1}, Index{2}, Index{29}}) {
    for (const Rows cut : {Rows::in_turn, Rows::neighbouring}) {
      for (Index stopping = none; stopping < items; ++stopping) {
        CAPTURE(items);
        CAPTURE(stopping);
        const auto all = on_ranks(3, [&] {
          std::atomic<bool> stop = false;
          LoopRecord::Options options;
          options.most_bytes = 1 << 20;
          options.is_due = [] { return true; };
          options.stop = &stop;
          LoopRecord record(options);
          const LoopRecord::Use use(&record);
          std::vector<Index> squares(static_cast<std::size_t>(items), -1);
          bool stopped = false;
          try {
            const LoopRecord::UseWithin step(LoopRecord::current());
            const kernel::RankShare share(items, kernel::Ranks::current(), LoopRecord::current(),
                                          cut);
            const kernel::RankShare unrecorded(items, kernel::Ranks::current(), nullptr, cut);
            REQUIRE(share.own_count() == unrecorded.own_count());
            for (Index n = 0; n < share.own_count(); ++n) {
              CHECK(share.own_item(n) == unrecorded.own_item(n));
            }
            const auto compute = [&] {
              for (Index n = 0; n < share.own_count(); ++n) {
                const Index item = share.own_item(n);
                if (item == stopping) stop = true;
                kernel::stop_if_asked();
                CHECK(squares[static_cast<std::size_t>(item)] == -1);
                squares[static_cast<std::size_t>(item)] = item * item;
                share.done(item);
              }
            };
            share.run(compute, [&] {
              share.complete_numbers(std::span(squares), [](Index item) { return item; });
            });
            for (Index n = 0; n < items; ++n) CHECK(squares[static_cast<std::size_t>(n)] == n * n);
          } catch (const kernel::Stopped&) {
            stopped = true;
          }
          CHECK(LoopRecord::current() == &record);
          CHECK(record.loops().empty());
          return stopped;
        });
        for (const bool stopped : all) CHECK(stopped == (stopping != none));
      }
    }
  }
}

TEST_CASE("loops that are short, or for which there is no room, are computed again") {
  for (const bool is_short : {true, false}) {
    LoopRecord::Options options;
    options.least_seconds = is_short ? 1000 : 0;
    options.most_bytes = is_short ? 1 << 20 : 79;
    LoopRecord record(options);
    const LoopRecord::Use use(&record);
    std::vector<double> numbers(10, 0);
    const kernel::RankShare share(10, nullptr, LoopRecord::current());
    share.run([&] { share.done(3); },
              [&] { share.complete_numbers(std::span(numbers), [](Index item) { return item; }); });
    CHECK(record.loops().size() == (is_short ? 0 : 1));
  }
}

TEST_CASE("what belongs to another loop is refused") {
  LoopRecord record({});
  record.loops()[0].done.assign(3, 1);
  const LoopRecord::Use use(&record);
  CHECK_THROWS_AS(kernel::RankShare(4, nullptr, &record), Error);
  LoopRecord other({});
  other.loops()[0] = {{1, 1}, {}, {std::vector<std::byte>(8)}};
  const kernel::RankShare share(2, nullptr, &other);
  std::vector<double> numbers(2);
  CHECK_THROWS_AS(
      share.run(
          [] {},
          [&] { share.complete_numbers(std::span(numbers), [](Index item) { return item; }); }),
      Error);
}

TEST_CASE_TEMPLATE("attention under every scheme goes on", T, float, double) {
  Random random(721);
  for_schemes<T>(random, 690, [](const auto& run, const auto& same) {
    check_stops(run, same);
    check_stops_on_ranks(run, same);
  });
}

TEST_CASE_TEMPLATE("iterations of attention go on", T, float, double) {
  Random random(722);
  for (const double spread : {0.5, 6.0, 60.0}) {
    ProblemOptions options;
    options.queries = 120;
    options.keys = 90;
    options.spread = spread;
    const Problem<T> problem(options, random);
    SchemeOptions until = fixed(Scheme::sinkhorn);
    until.iterations = 40;
    until.tolerance = 1e-6;
    SchemeOptions exactly = fixed(Scheme::sinkhorn);
    exactly.iterations = 23;
    for (const SchemeOptions& scheme : {until, exactly}) {
      CAPTURE(spread);
      const auto run = [&](int threads) { return run_divided(problem, scheme, threads); };
      check_stops(run, same_run<T>);
      check_stops_on_ranks(run, same_run<T>);
    }
  }
}

TEST_CASE_TEMPLATE("gradients go on", T, float, double) {
  Random random(723);
  for_gradients<T>(random, 20, 600, [](const auto& run, const auto& same) {
    check_stops(run, same);
    check_stops_on_ranks(run, same);
  });
}

TEST_CASE("duals go on") {
  Random random(724);
  for_duals(random, [](const auto& run, const auto& same) {
    check_stops(run, same);
    check_stops_on_ranks(run, same);
  });
}
