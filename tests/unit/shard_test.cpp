// tools/common/shard: which part of a run a job computes.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/shard.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;
using namespace attn::tools;

namespace {

using Variables = std::map<std::string, std::string>;

Shard parsed(const std::string& words, const Variables& variables) {
  return parse_shard(words, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

TEST_CASE("an array comes before ranks") {
  Variables variables = {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "5"}};
  CHECK(parsed("auto", variables).number == 3);
  CHECK(parsed("auto", variables).count == 5);
  variables["SLURM_ARRAY_TASK_ID"] = "7";
  CHECK(thrown_error([&] { parsed("auto", variables); }).failure() == Failure::usage);
  CHECK(parsed("auto/9", variables).number == 7);
  CHECK(parsed("2/3", variables).number == 2);
}

TEST_CASE("an element that its array does not have") {
  Variables variables = {{"SLURM_ARRAY_TASK_MIN", "3"},
                         {"SLURM_ARRAY_TASK_MAX", "9"},
                         {"SLURM_ARRAY_TASK_STEP", "3"},
                         {"SLURM_ARRAY_TASK_COUNT", "3"}};
  for (const char* const id : {"0", "4", "12"}) {
    variables["SLURM_ARRAY_TASK_ID"] = id;
    CHECK(thrown_error([&] { parsed("auto", variables); }).failure() == Failure::usage);
  }
  variables["SLURM_ARRAY_TASK_ID"] = "6";
  CHECK(parsed("auto", variables).number == 2);
}

TEST_CASE("every unit belongs to one shard, and shards differ by two units at most") {
  std::mt19937 random(1);
  for (int n = 0; n < 300; ++n) {
    std::vector<double> work(random() % 40);
    for (double& one : work) one = n % 3 == 0 ? 1 : static_cast<double>(random() % 1000);
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    const double largest = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
    for (const Index count : {1, 2, 3, 7, 64}) {
      std::size_t next = 0;
      for (Index number = 1; number <= count; ++number) {
        const auto [first, last] = share_of(work, {number, count});
        CHECK(first <= last);
        // An empty share may lie anywhere.
        if (first == last) continue;
        CHECK(first == next);
        next = last;
        const double own = std::accumulate(work.begin() + static_cast<std::ptrdiff_t>(first),
                                           work.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
        CHECK(own <= all / static_cast<double>(count) + largest);
      }
      CHECK(next == work.size());
    }
  }
}

TEST_CASE("units without work are divided by their number") {
  CHECK(share_of({0, 0, 0, 0}, {1, 2}) == std::pair<std::size_t, std::size_t>{0, 2});
  CHECK(share_of({0, 0, 0, 0}, {2, 2}) == std::pair<std::size_t, std::size_t>{2, 4});
  CHECK(share_of({}, {1, 2}) == std::pair<std::size_t, std::size_t>{0, 0});
}

TEST_CASE("names of the parts") {
  CHECK(shard_output("out.h5", {3, 64}) == "out.0003-of-0064.h5");
  CHECK(shard_output("a/.hidden", {1, 2}) == "a/.hidden.0001-of-0002");
  CHECK(shard_output("a.b/out", {1, 2}) == "a.b/out.0001-of-0002");
  CHECK(shard_output("out.h5", {12345, 123456}) == "out.12345-of-123456.h5");
  CHECK(shard_output("%N/%I.h5", {3, 64}) == "64/3.h5");
  CHECK(shard_output("-", {3, 64}) == "-");
}
