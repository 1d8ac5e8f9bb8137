// Long computations that are asked to stop.

#include "parallel/stop_flag.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "parallel/in_order.hpp"
#include "parallel/parallel_for.hpp"
#include "random_problem.hpp"
#include "scheme/scheme.hpp"
#include "scheme/scheme_description.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Sets the flag at the first weights that it is shown, and counts those that follow.
class StopAtOnce final : public Observer<double> {
 public:
  explicit StopAtOnce(std::atomic<bool>& flag) : flag_(flag) {}
  void observe(const WeightTile<double>&, Index) override {
    flag_ = true;
    ++tiles_;
  }
  int tiles() const { return tiles_; }

 private:
  std::atomic<bool>& flag_;
  std::atomic<int> tiles_{0};
};

}  // namespace

TEST_CASE("a set flag stops loops of its scope, and no others") {
  std::atomic<bool> flag{true};
  stop_if_asked();
  {
    const StopFlag::Use use(&flag);
    CHECK_THROWS_AS(stop_if_asked(), Stopped);
    const StopFlag::Use none(nullptr);
    stop_if_asked();
  }
  stop_if_asked();
}

TEST_CASE("no item begins after the request, with any number of threads") {
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    std::atomic<bool> flag{false};
    std::atomic<int> begun{0};
    const StopFlag::Use use(&flag);
    CHECK_THROWS_AS(parallel_for(1000, threads,
                                 [&](Index, int) {
                                   ++begun;
                                   flag = true;
                                 }),
                    Stopped);
    CHECK(begun <= threads);
    flag = false;
    begun = 0;
    CHECK_THROWS_AS(add_in_order(
                        1000, threads, 3, [&](Index, Index) { ++begun; },
                        [&](Index, Index, SumPart) { flag = true; }),
                    Stopped);
    CHECK(begun <= 2 * threads);
  }
}

TEST_CASE("a loop within a loop stops, too, and an error comes first") {
  std::atomic<bool> flag{false};
  const StopFlag::Use use(&flag);
  std::atomic<int> inner{0};
  CHECK_THROWS_AS(parallel_for(2, 2,
                               [&](Index, int) {
                                 parallel_for(1000, 2, [&](Index, int) {
                                   ++inner;
                                   flag = true;
                                 });
                               }),
                  Stopped);
  CHECK(inner <= 2);
  flag = false;
  CHECK_THROWS_AS(parallel_for(5, 1,
                               [&](Index, int) {
                                 flag = true;
                                 throw std::runtime_error("first");
                               }),
                  std::runtime_error);
}

TEST_CASE("every scheme stops within a pass") {
  Random random(1);
  ProblemOptions sizes;
  sizes.queries = 700;
  sizes.keys = 900;
  sizes.depth = 4;
  const Problem<double> problem(sizes, random);
  for (const Scheme scheme : all_schemes) {
    CAPTURE(std::string(description_of(scheme).name()));
    std::atomic<bool> flag{false};
    const StopFlag::Use use(&flag);
    StopAtOnce observer(flag);
    SchemeOptions options;
    options.scheme = scheme;
    CHECK_THROWS_AS(attend<double>(problem.scores(), options, {&observer}, 1), Stopped);
    CHECK(observer.tiles() > 0);
  }
}
