#include <doctest/doctest.h>

#include <sys/stat.h>

#include <thread>

#include "layered_input.hpp"
#include "redirected.hpp"
#include "system/unnamed_file.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

TEST_CASE("Standard input is a stream, spooled without a trace") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  InputBundle::Options options;
  options.input = "-";
  fs::create_directory(folder / "tmp");
  options.tmpdir = folder / "tmp";
  {
    const Redirected stream(0, folder / "in.h5", O_RDONLY);
    const InputBundle bundle(options);
    CHECK(bundle.description() == "standard input");
    CHECK(bundle.dataset("k").address() == "standard input:/k");
    CHECK(values_of<float>(bundle.dataset("k")) == std::vector<float>{3, 4});
    CHECK(fs::is_empty(folder / "tmp"));
    CHECK(thrown_error([&] { bundle.dataset("q"); }).what() ==
          std::string("standard input: no dataset q (there are: k, tokens, v)"));
  }
  {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const std::string bytes = content_of(folder / "in.h5");
    std::thread writer([&] {
      for (std::size_t at = 0; at < bytes.size(); at += 100) {
        const std::size_t length = std::min<std::size_t>(100, bytes.size() - at);
        CHECK(write(ends[1], bytes.data() + at, length) == static_cast<ssize_t>(length));
      }
      close(ends[1]);
    });
    const Redirected stream(0, ends[0]);
    InputBundle::Options named;
    named.named = {{"q", "-:/layer3/Q[0]"}};
    const InputBundle bundle(named);
    CHECK(values_of<float>(bundle.dataset("q")) == std::vector<float>{7, 8});
    CHECK(bundle.dataset("q").address() == "standard input:/layer3/Q[0]");
    writer.join();
  }
}

TEST_CASE("Streams without a bundle") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  write_file(folder / "text", "text");
  write_file(folder / "short", content_of(folder / "in.h5").substr(0, 3000));
  const auto refusal_of = [&](const std::string& name) {
    const Redirected stream(0, name, O_RDONLY);
    return refusal("-");
  };
  const Error empty = refusal_of("/dev/null");
  CHECK(empty.failure() == Failure::input);
  CHECK(empty.what() == std::string("standard input is empty"));
  CHECK(contains(empty.hint(), "the command before it"));
  CHECK(refusal_of(folder / "text").what() == std::string("standard input is not an HDF5 file"));
  CHECK(contains(refusal_of(folder / "short").what(), "standard input is truncated"));

  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal >= 0) {
    const Redirected stream(0, terminal);
    const Error error = refusal("-");
    CHECK(error.failure() == Failure::usage);
    CHECK(contains(error.what(), "standard input is a terminal"));
  }
  const Error twice = refusal("-", {{"q", "-:/q"}});
  CHECK(twice.failure() == Failure::usage);
  CHECK(contains(twice.what(), "standard input can be used for only one input"));
}

TEST_CASE("A spool that cannot be written is an output error") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  const Redirected stream(0, folder / "in.h5", O_RDONLY);
  InputBundle::Options options;
  options.input = "-";
  options.tmpdir = folder / "nothing";
  const Error error = thrown_error([&] { InputBundle bundle(options); });
  CHECK(error.failure() == Failure::output);
  CHECK(contains(error.hint(), "--tmpdir"));
}

TEST_CASE("A FIFO as INPUT is read as a stream") {
  const TemporaryFolder folder;
  write_example(folder / "in.h5");
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  std::thread writer([&] { write_file(folder / "fifo", content_of(folder / "in.h5")); });
  CHECK(open_input(folder / "fifo").names().size() == 3);
  writer.join();
}

TEST_CASE("Unnamed files have a name only while they are opened, with either method") {
  for (const bool allow_tmpfile : {true, false}) {
    CAPTURE(allow_tmpfile);
    const TemporaryFolder folder;
    UnnamedFile file(folder.path(), allow_tmpfile);
    REQUIRE(write(file.descriptor(), "abc", 3) == 3);
    std::string seen;
    file.with_name([&](const std::string& path) {
      seen = content_of(path);
      struct stat status {};
      REQUIRE(stat(path.c_str(), &status) == 0);
      CHECK((status.st_mode & 0777) == 0600);
    });
    CHECK(seen == "abc");
    CHECK(folder.entries().empty());
  }
}
