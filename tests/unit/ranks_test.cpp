// A computation that is divided among ranks has the bits of one process, on every rank.

#include "parallel/ranks.hpp"

#include <doctest/doctest.h>

#include <atomic>

#include "parallel/in_order.hpp"
#include "parallel/rank_share.hpp"
#include "same_bits.hpp"
#include "shared_run.hpp"
#include "thread_ranks.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

constexpr int rank_counts[] = {2, 3, 8};

// Counts the weights that this process has seen.
template <class T>
class CountWeights final : public Observer<T> {
 public:
  void observe(const WeightTile<T>& tile, Index) override {
    seen_ += tile.range.rows * tile.range.cols;
  }
  bool can_share() const override { return true; }
  Index seen() const { return seen_; }

 private:
  std::atomic<Index> seen_ = 0;
};

// `compute(threads)` on ranks and by one process.
template <class Compute, class Same>
void check_ranks(const Compute& compute, const Same& same) {
  const auto alone = compute(2);
  for (const int count : rank_counts) {
    CAPTURE(count);
    for (const auto& found : on_ranks(count, [&] { return compute(count == 2 ? 2 : 1); })) {
      CHECK(same(found, alone));
    }
  }
}

}  // namespace

TEST_CASE("items of ranks") {
  Mailboxes boxes;
  for (const auto cut : {Ranks::Rows::in_turn, Ranks::Rows::neighbouring}) {
    for (const Index items : {0, 1, 2, 3, 7}) {
      std::vector<int> owners(static_cast<std::size_t>(items), 0);
      for (int own = 0; own < 3; ++own) {
        ThreadRanks ranks(boxes, own, 3);
        const RankShare share(items, &ranks, cut);
        for (Index n = 0; n < share.own_count(); ++n) {
          ++owners[static_cast<std::size_t>(share.own_item(n))];
          const bool neighbours = share.own_item(n) == share.own_item(0) + n;
          CHECK((neighbours || cut == Ranks::Rows::in_turn));
        }
      }
      CHECK(std::all_of(owners.begin(), owners.end(), [](int one) { return one == 1; }));
    }
  }
  const RankShare whole(5, nullptr);
  CHECK(whole.own_count() == 5);
  CHECK(whole.own_item(4) == 4);
}

TEST_CASE("results longer than one exchange, and items without any") {
  constexpr Index items = 7;
  constexpr std::size_t length = 700000;
  for (const auto& found : on_ranks(3, [&] {
         Ranks& ranks = *Ranks::current();
         const RankShare share(items, &ranks);
         std::vector<std::vector<double>> values(items, std::vector<double>(length, -1));
         for (Index n = 0; n < share.own_count(); ++n) {
           const Index item = share.own_item(n);
           values[static_cast<std::size_t>(item)].assign(length, static_cast<double>(item));
         }
         share.complete([&](Index item, const RankShare::Visit& visit) {
           auto& one = values[static_cast<std::size_t>(item)];
           if (item != 4) visit(std::as_writable_bytes(std::span(one)));
         });
         return values;
       })) {
    for (Index item = 0; item < items; ++item) {
      const auto& one = found[static_cast<std::size_t>(item)];
      const auto missing = item == 4 ? -1.0 : static_cast<double>(item);
      CHECK(std::count_if(one.begin(), one.end(), [&](double x) {
              return x == static_cast<double>(item) || x == missing;
            }) == static_cast<std::ptrdiff_t>(length));
    }
  }
}

TEST_CASE("sums in order, and an error in one of them") {
  for (const int threads : {1, 2, 4}) {
    for (const Index parts : {1, 3}) {
      CAPTURE(threads);
      CAPTURE(parts);
      std::vector<std::vector<Index>> orders(static_cast<std::size_t>(parts));
      add_in_order(
          9, threads, parts, [](Index, Index) {},
          [&](Index item, Index, SumPart part) {
            CHECK(part.count == parts);
            orders[static_cast<std::size_t>(part.index)].push_back(item);
          });
      for (const std::vector<Index>& order : orders) {
        CHECK(order == std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 8});
      }
      const auto fail_at_3 = [](Index item) {
        if (item == 3) throw Error(Failure::input, "item 3");
      };
      CHECK_THROWS_AS(add_in_order(
                          9, threads, parts, [&](Index item, Index) { fail_at_3(item); },
                          [](Index, Index, SumPart) {}),
                      Error);
      CHECK_THROWS_AS(add_in_order(
                          9, threads, parts, [](Index, Index) {},
                          [&](Index item, Index, SumPart part) {
                            if (part.is_last()) fail_at_3(item);
                          }),
                      Error);
    }
  }
}

TEST_CASE("the parts of sums have each line once, in order") {
  for (const Index lines : {Index{0}, Index{1}, Index{127}, Index{1000}, Index{100001}}) {
    for (const int threads : {1, 2, 64}) {
      const Index count = parts_of_sums(lines, threads);
      Index next = 0;
      for (Index index = 0; index < count; ++index) {
        const SumPart part{index, count};
        CHECK(part.first(lines) == next);
        CHECK(part.last(lines) >= next);
        next = part.last(lines);
      }
      CHECK(next == lines);
    }
  }
}

TEST_CASE_TEMPLATE("ranks see disjoint tiles that are all tiles", T, float, double) {
  Random random(711);
  ProblemOptions options;
  options.queries = 300;
  options.keys = 200;
  const Problem<T> problem(options, random);
  const auto seen = on_ranks(3, [&] {
    CountWeights<T> counter;
    attend<T>(problem.scores(), fixed(Scheme::unas), {&counter}, 1);
    return counter.seen();
  });
  CHECK(seen[0] + seen[1] + seen[2] == 300 * 200);
  for (const Index one : seen) CHECK(one > 0);
}

TEST_CASE_TEMPLATE("attention under every scheme on ranks", T, float, double) {
  Random random(712);
  for_schemes<T>(random, 1290, [](const auto& run, const auto& same) { check_ranks(run, same); });
}

TEST_CASE_TEMPLATE("random problems on ranks, with weights, which every rank computes", T, float,
                   double) {
  Random random(713);
  for (int n = 0; n < repeats(30); ++n) {
    const Problem<T> problem(random_options(random, 200), random);
    const Scheme scheme = all_schemes[random_index(random, 0, 3)];
    CAPTURE(n);
    check_ranks([&](int threads) { return run_divided(problem, fixed(scheme), threads); },
                same_run<T>);
    check_ranks([&](int threads) { return run_all(problem, fixed(scheme), threads); },
                [](const Run<T>& a, const Run<T>& b) {
                  return same_run(a, b) && same_bits(a.weights, b.weights);
                });
  }
}

TEST_CASE_TEMPLATE("gradients on ranks", T, float, double) {
  Random random(714);
  for_gradients<T>(random, 0, 1100,
                   [](const auto& run, const auto& same) { check_ranks(run, same); });
}

TEST_CASE("duals on ranks") {
  Random random(715);
  for_duals(random, [](const auto& run, const auto& same) { check_ranks(run, same); });
}
