#include <doctest/doctest.h>

#include <map>

#include "attnkit/error.hpp"
#include "cli/resolve.hpp"

using namespace attn;
using namespace attn::cli;

namespace {

Environment of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

}  // namespace

TEST_CASE("threads: the option, then the variables in their order, then the CPUs") {
  const std::map<std::string, std::string> all = {
      {"ATTN_NUM_THREADS", "3"}, {"OMP_NUM_THREADS", "4,2"}, {"SLURM_CPUS_PER_TASK", "5"}};
  auto some = all;
  CHECK(resolve_threads(7, of(some)) == 7);
  CHECK(resolve_threads({}, of(some)) == 3);
  some["ATTN_NUM_THREADS"] = "";
  CHECK(resolve_threads({}, of(some)) == 4);
  some.erase("OMP_NUM_THREADS");
  CHECK(resolve_threads({}, of(some)) == 5);
  CHECK(resolve_threads({}, of({})) == cpus_allowed());
  CHECK(cpus_allowed() >= 1);
}

TEST_CASE("threads: an invalid value is ignored in foreign variables and refused in ours") {
  CHECK(resolve_threads({}, of({{"OMP_NUM_THREADS", "many"}, {"SLURM_CPUS_PER_TASK", "2"}})) == 2);
  CHECK(resolve_threads({}, of({{"OMP_NUM_THREADS", "0"}, {"SLURM_CPUS_PER_TASK", "2"}})) == 2);
  CHECK(resolve_threads({}, of({{"SLURM_CPUS_PER_TASK", "-2"}})) == cpus_allowed());
  for (const char* const text : {"many", "0", "-1", "2.5", "99999999999999999999", "4,2"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(resolve_threads({}, of({{"ATTN_NUM_THREADS", text}})), Error);
    CHECK(resolve_threads(1, of({{"ATTN_NUM_THREADS", text}})) == 1);
  }
}

TEST_CASE("the folder for temporaries") {
  CHECK(resolve_tmpdir("/given", of({{"TMPDIR", "/variable"}})) == "/given");
  CHECK(resolve_tmpdir("", of({{"TMPDIR", "/variable"}})) == "/variable");
  CHECK(resolve_tmpdir("", of({})) == "/tmp");
}
