#include <doctest/doctest.h>

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "io_fixture.hpp"
#include "long_run.hpp"
#include "redirected.hpp"
#include "repeats.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

/// Writes a bundle with small and large objects, so that writing may fail in many places.
void write_everything(const std::string& target, const std::string& input, bool force = false) {
  OutputBundle output = open_output(target, force);
  output.copy_from(open_input(input), {});
  const std::vector<float> values(100 * 100, 1.0F);
  output.create("contiguous", DType::f32, {100, 100}, {"query", "key"})
      .write({0, 0}, {100, 100}, values.data());
  OutputDataset chunked = output.create("chunked", DType::f32, {100, 100}, {}, {32, 32});
  for (Index row = 0; row < 100; row += 10) chunked.write({row, 0}, {10, 100}, values.data());
  output.write_strings("tokens", std::vector<std::string>(500, "a token of some length"));
  for (int i = 0; i < 20; ++i)
    output.attribute("attribute" + std::to_string(i), std::string(200, 'x'));
  output.add_history("tool", "1");
  output.commit();
}

void write_input(const std::string& path) {
  RawFile file(path);
  const std::vector<double> values(5000, 3.0);
  file.put("packed", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {5000}, values.data(), {500}, true);
  file.put("group/plain", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {5000}, values.data());
}

void limit_file_size(std::size_t bytes) {
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

/// 0: written; 5: refused as expected, with nothing left behind; otherwise a code for the mistake.
int outcome(const TemporaryFolder& folder, const std::string& target, const std::string& input) {
  try {
    write_everything(target, input);
    return 0;
  } catch (const Error& error) {
    if (error.failure() != Failure::output) return 20;
    if (!output_failed()) return 21;
    if (folder.entries() != std::vector<std::string>{"in.h5"}) return 22;
    return contains(error.what(), "file too large") ? 5 : 23;
  }
}

}  // namespace

TEST_CASE("A file that cannot grow at any point is an output error and leaves no trace") {
  const TemporaryFolder folder;
  write_input(folder / "in.h5");
  write_everything(folder / "whole.h5", folder / "in.h5");
  const std::size_t whole = fs::file_size(folder / "whole.h5");
  fs::remove(folder / "whole.h5");
  int refused = 0;
  for (std::size_t limit = 0; limit < whole + 3000; limit += long_run() ? 1777 : 7109) {
    CAPTURE(limit);
    const int status = status_of_child([&] {
      install_cleanup_handlers();
      limit_file_size(limit);
      // The exit is part of the test: an ordinary exit must do no harm.
      std::exit(outcome(folder, folder / "out.h5", folder / "in.h5"));
    });
    CHECK(WIFEXITED(status));
    const int expected = limit >= whole ? 0 : 5;
    if (limit + 2000 < whole || limit >= whole) CHECK(WEXITSTATUS(status) == expected);
    refused += WEXITSTATUS(status) == 5 ? 1 : 0;
    fs::remove(folder / "out.h5");
  }
  CHECK(refused > repeats(50));
}

TEST_CASE("After a failure the same error is thrown again, and other bundles work") {
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    install_cleanup_handlers();
    limit_file_size(10000);
    OutputBundle output = open_output(folder / "out.h5");
    OutputDataset dataset = output.create("x", DType::f32, {100000});
    // A smaller dataset would stay in HDF5's buffers until commit.
    const std::vector<float> values(100000);
    const Error first = thrown_error([&] { dataset.write({0}, {100000}, values.data()); });
    const Error second = thrown_error([&] { dataset.write({0}, {1}, values.data()); });
    const Error third = thrown_error([&] { output.commit(); });
    const std::string expected = folder / "out.h5" + ":/x cannot be written: file too large";
    if (first.what() != expected || second.what() != expected || third.what() != expected) _exit(1);
    if (!folder.entries().empty()) _exit(2);
    write_counting(folder / "small.h5", "y", {10});
    if (values_of<float>(open_input(folder / "small.h5").dataset("y")).size() != 10) _exit(3);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("A full disk is reported") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "small");
  if (mount("tmpfs", (folder / "small").c_str(), "tmpfs", 0, "size=256k") != 0) {
    MESSAGE("mounting a small file system needs root: skipped");
    return;
  }
  write_input(folder / "in.h5");
  const int status = status_of_child([&] {
    write_file(folder / "small/old.h5", "old");
    try {
      OutputBundle output = open_output(folder / "small/old.h5", true);
      OutputDataset dataset = output.create("x", DType::f32, {100, 1000}, {}, {10, 1000});
      const std::vector<float> values(100 * 1000);
      dataset.write({0, 0}, {100, 1000}, values.data());
      output.commit();
      _exit(1);
    } catch (const Error& error) {
      if (!contains(error.what(), "small/old.h5")) _exit(2);
      if (!contains(error.what(), "no space left on device")) _exit(3);
    }
    if (content_of(folder / "small/old.h5") != "old") _exit(4);
    if (std::distance(fs::directory_iterator(folder / "small"), {}) != 1) _exit(5);
    // The space is free again, although HDF5 still has the file open.
    write_everything(folder / "small/new.h5", folder / "in.h5");
  });
  umount((folder / "small").c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("Signals remove the temporary and end the process as usual") {
  const TemporaryFolder folder;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    CAPTURE(number);
    const int status = status_of_child([&] {
      signal(number, SIG_DFL);
      install_cleanup_handlers();
      OutputBundle output = open_output(folder / "out.h5");
      if (folder.entries().size() != 1) _exit(1);
      raise(number);
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    CHECK(folder.entries().empty());
  }
  const int ignored = status_of_child([&] {
    signal(SIGHUP, SIG_IGN);
    install_cleanup_handlers();
    raise(SIGHUP);
  });
  CHECK(WIFEXITED(ignored));
}

TEST_CASE("A bundle is copied to standard output only at the end") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "tmp");
  const auto write_stream = [&](bool commit) {
    OutputBundle::Options options;
    options.tmpdir = folder / "tmp";
    OutputBundle output(options);
    CHECK(output.description() == "standard output");
    const float one = 1;
    output.create("x", DType::f32, {}).write({}, {}, &one);
    CHECK(fs::is_empty(folder / "tmp"));
    if (commit) output.commit();
  };
  for (const bool commit : {false, true}) {
    const Redirected stream(1, folder / "stream", O_WRONLY | O_CREAT | O_TRUNC);
    write_stream(commit);
    CHECK((fs::file_size(folder / "stream") > 0) == commit);
  }
  CHECK(values_of<float>(open_input(folder / "stream").dataset("x")) == std::vector<float>{1});
}

TEST_CASE("Streams that cannot be written") {
  const TemporaryFolder folder;
  write_input(folder / "in.h5");
  const auto write_to = [&](const std::string& target) {
    return thrown_error([&] { write_everything(target, folder / "in.h5"); });
  };
  const Error full = write_to("/dev/full");
  CHECK(full.failure() == Failure::output);
  CHECK(full.what() == std::string("cannot write /dev/full: no space left on device"));
  {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    close(ends[0]);
    const Redirected stream(1, ends[1]);
    signal(SIGPIPE, SIG_IGN);
    const Error broken = write_to("-");
    signal(SIGPIPE, SIG_DFL);
    CHECK(broken.failure() == Failure::output);
    CHECK(broken.what() == std::string("cannot write standard output: broken pipe"));
  }
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal >= 0) {
    const Redirected stream(1, terminal);
    const Error error = write_to("-");
    CHECK(error.failure() == Failure::usage);
    CHECK(contains(error.what(), "will not write the output to a terminal"));
    CHECK(contains(error.hint(), "-o"));
  }
  CHECK_FALSE(output_failed());
}

TEST_CASE("An existing output that is not a regular file is a stream") {
  const TemporaryFolder folder;
  write_input(folder / "in.h5");
  write_everything("/dev/null", folder / "in.h5");
  CHECK(fs::is_character_file("/dev/null"));
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  std::string received;
  std::thread reader([&] { received = content_of(folder / "fifo"); });
  write_everything(folder / "fifo", folder / "in.h5");
  reader.join();
  CHECK(fs::is_fifo(folder / "fifo"));
  write_file(folder / "received.h5", received);
  CHECK(open_input(folder / "received.h5").has("chunked"));
}
