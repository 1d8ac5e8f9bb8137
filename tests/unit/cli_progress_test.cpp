#include <doctest/doctest.h>

#include "cli/progress.hpp"

using namespace attn::cli;

TEST_CASE("the progress line") {
  CHECK(progress_line("dnas", 0, 100, 5) == "dnas   0%");
  CHECK(progress_line("dnas", 0.5, 100, 5) == "dnas   0%");
  CHECK(progress_line("dnas", 50, 100, 10) == "dnas  50%, 10 s left");
  CHECK(progress_line("dnas", 25, 100, 10.5) == "dnas  25%, 32 s left");
  CHECK(progress_line("dnas", 10, 100, 10) == "dnas  10%, 1 min 30 s left");
  CHECK(progress_line("dnas", 10, 100, 1000) == "dnas  10%, 2 h 30 min left");
  CHECK(progress_line("dnas", 99.99, 100, 10) == "dnas  99%, 1 s left");
  CHECK(progress_line("dnas", 100, 100, 10) == "dnas 100%");
  CHECK(progress_line("dnas", 101, 100, 10) == "dnas 100%");
  CHECK(progress_line("dnas", 0, 0, 10) == "dnas 100%");
}
