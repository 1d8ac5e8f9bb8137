#include "cli/text_file.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "io_fixture.hpp"

using namespace attn;
using attn::testing::content_of;
using attn::testing::TemporaryFolder;

TEST_CASE("a new text never takes the name of another one") {
  const TemporaryFolder folder;
  const std::string file = folder / "a.txt";
  CHECK(cli::write_new_text("one", file, "record"));
  CHECK_FALSE(cli::write_new_text("two", file, "record"));
  CHECK(content_of(file) == "one");
  CHECK(folder.entries() == std::vector<std::string>{"a.txt"});
  // Not even the name of a link that leads nowhere.
  REQUIRE(symlink("gone", (folder / "link").c_str()) == 0);
  CHECK_FALSE(cli::write_new_text("two", folder / "link", "record"));
  CHECK_THROWS_AS(cli::write_new_text("one", folder / "no/a.txt", "record"), Error);
}

TEST_CASE("of processes that write a new text at once, one does") {
  const TemporaryFolder folder;
  for (int round = 0; round < 20; ++round) {
    const std::string file = folder / std::to_string(round);
    std::vector<pid_t> writers;
    for (int n = 0; n < 8; ++n) {
      writers.push_back(fork());
      if (writers.back() == 0) {
        _exit(cli::write_new_text(std::to_string(n), file, "record") ? 1 : 0);
      }
    }
    int count = 0;
    for (const pid_t writer : writers) {
      int status = 0;
      waitpid(writer, &status, 0);
      count += WEXITSTATUS(status);
    }
    CHECK(count == 1);
  }
}
