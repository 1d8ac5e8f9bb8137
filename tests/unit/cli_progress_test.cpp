#include <doctest/doctest.h>

#include "cli/progress.hpp"
#include "cli/words.hpp"

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

TEST_CASE("the rate, in the unit of the work") {
  CHECK(progress_line("dnas", 0, 8, 5, "heads") == "dnas   0%");
  CHECK(progress_line("dnas", 2, 8, 5, "heads") == "dnas  25%, 0.4 heads/s, 15 s left");
  CHECK(progress_line("dnas", 8, 8, 600, "heads") == "dnas 100%, 0.0133 heads/s");
  CHECK(progress_line("x", 999.4, 2000, 1, "heads") == "x  49%, 999 heads/s, 2 s left");
  CHECK(progress_line("x", 999.6, 2000, 1, "heads") == "x  49%, 1 k heads/s, 2 s left");
  CHECK(progress_line("x", 4.56e9, 9e9, 100, "elements") ==
        "x  50%, 45.6 M elements/s, 1 min 38 s left");
  CHECK(progress_line("x", 1e18, 2e18, 1, "elements") == "x  50%, 1e+06 T elements/s, 1 s left");
  CHECK(progress_line("x", 5, 10, 0, "heads") == "x  50%");
  CHECK(progress_line("x", 0, 0, 10, "heads") == "x 100%");
}

TEST_CASE("the progress line stays below 80 columns") {
  const std::string layer = "attn-compute: dnas /encoder/layers/17/self_attention/of/the/long/name";
  const std::string line = progress_line(layer, 50, 100, 1000, "heads");
  CHECK(line ==
        "attn-compute: dnas /encoder/layers/17/sel\u2026  50%, 0.05 heads/s, 16 min 40 s left");
  CHECK(width(line) == 79);
  std::string greek;
  for (int n = 0; n < 100; ++n) greek += "\u03bb";
  for (const double done : {0.0, 50.0, 100.0}) {
    CHECK(width(progress_line(greek, done, 100, 1e8, "elements")) == 79);
    CHECK(width(progress_line("", done, 100, 1e8, "elements")) < 79);
  }
  const std::string exact(74, 'x');
  CHECK(progress_line(exact, 0, 100, 1) == exact + "   0%");
  CHECK(progress_line(exact + "x", 0, 100, 1) == exact.substr(1) + "\u2026   0%");
}
