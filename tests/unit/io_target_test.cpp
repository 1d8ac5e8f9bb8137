#include <doctest/doctest.h>

#include <sys/stat.h>

#include <stdexcept>

#include "io_fixture.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using namespace attn::testing;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

}  // namespace

TEST_CASE("Nothing appears without commit") {
  const TemporaryFolder folder;
  write_file(folder / "old.h5", "old");
  {
    OutputBundle fresh = open_output(folder / "new.h5");
    OutputBundle replacing = open_output(folder / "old.h5", true);
    OutputDataset dataset = fresh.create("x", DType::f32, {1000});
    const std::vector<float> values(1000);
    dataset.write({0}, {1000}, values.data());
    CHECK(folder.entries() == std::vector<std::string>{".new.h5.tmp", ".old.h5.tmp", "old.h5"});
    const Error second = thrown_error([&] { open_output(folder / "new.h5", true); });
    CHECK(second.failure() == Failure::output);
    CHECK(second.what() == folder / "new.h5 is being written by another process");
    CHECK_FALSE(output_failed());
  }
  CHECK(folder.entries() == std::vector<std::string>{"old.h5"});
  CHECK(content_of(folder / "old.h5") == "old");
}

TEST_CASE("A dataset that outlives its bundle leaves no file behind") {
  const TemporaryFolder folder;
  std::vector<OutputDataset> kept;
  const float value = 1;
  {
    OutputBundle bundle = open_output(folder / "a.h5");
    kept.push_back(bundle.create("x", DType::f32, {1}));
  }
  CHECK(folder.entries().empty());
  CHECK_THROWS_AS(kept[0].write({0}, {1}, &value), std::logic_error);
  OutputBundle bundle = open_output(folder / "b.h5");
  kept.push_back(bundle.create("x", DType::f32, {1}));
  kept[1].write({0}, {1}, &value);
  bundle.commit();
  CHECK_THROWS_AS(kept[1].write({0}, {1}, &value), std::logic_error);
  CHECK_THROWS_AS(bundle.attribute("a", 1.0), std::logic_error);
  CHECK_THROWS_AS(bundle.commit(), std::logic_error);
  CHECK(values_of<float>(open_input(folder / "b.h5").dataset("x")) == std::vector<float>{1});
}

TEST_CASE("An existing file is replaced only with force, and keeps its mode") {
  const TemporaryFolder folder;
  const std::string path = folder / "out.h5";
  write_file(path, "precious");
  const Error error = thrown_error([&] { open_output(path); });
  CHECK(error.failure() == Failure::output);
  CHECK(error.what() == path + " exists");
  CHECK(contains(error.hint(), "--force"));
  CHECK(content_of(path) == "precious");
  CHECK(chmod(path.c_str(), 0640) == 0);
  write_counting(path, "x", {3});
  CHECK(mode_of(path) == 0640);
  CHECK(open_input(path).has("x"));
}

TEST_CASE("A new file has the usual mode") {
  const TemporaryFolder folder;
  const mode_t before = umask(027);
  write_counting(folder / "out.h5", "x", {3});
  umask(before);
  CHECK(mode_of(folder / "out.h5") == 0640);
}

TEST_CASE("A file that appears in the meantime is not overwritten without force") {
  const TemporaryFolder folder;
  OutputBundle bundle = open_output(folder / "out.h5");
  write_file(folder / "out.h5", "somebody else's");
  const Error error = thrown_error([&] { bundle.commit(); });
  CHECK(error.failure() == Failure::output);
  CHECK(error.what() == folder / "out.h5" + " exists");
  CHECK(content_of(folder / "out.h5") == "somebody else's");
  CHECK(folder.entries() == std::vector<std::string>{"out.h5"});
}

TEST_CASE("A symbolic link stays, and its target is replaced or created") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "data");
  write_counting(folder / "data/real.h5", "old", {1});
  fs::create_symlink("data/real.h5", folder / "link.h5");
  fs::create_symlink("link.h5", folder / "second.h5");
  fs::create_symlink("data/new.h5", folder / "dangling.h5");
  CHECK(thrown_error([&] { open_output(folder / "second.h5"); }).failure() == Failure::output);
  write_counting(folder / "second.h5", "x", {2});
  write_counting(folder / "dangling.h5", "y", {2});
  CHECK(fs::is_symlink(folder / "link.h5"));
  CHECK(fs::is_symlink(folder / "second.h5"));
  CHECK(fs::is_symlink(folder / "dangling.h5"));
  CHECK(open_input(folder / "data/real.h5").names() == std::vector<std::string>{"x"});
  CHECK(open_input(folder / "data/new.h5").names() == std::vector<std::string>{"y"});
}

TEST_CASE("Impossible output paths are refused at once") {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  for (const auto& one : std::vector<std::pair<std::string, std::string>>{
           {folder.path(), "is a folder"},
           {folder / "no/out.h5", "no folder"},
           {folder / "no $x/out.h5", "no $x"},
           {folder / "new/", "is a directory"},
           {folder / "file/out.h5", "not a directory"}}) {
    const auto& target = one.first;
    const auto& says = one.second;
    CAPTURE(target);
    const Error error = thrown_error([&] { open_output(target); });
    CHECK(error.failure() == Failure::output);
    CHECK(contains(error.what(), says));
    CHECK(error.hint() == (says == "no folder" ? "mkdir -p " + (folder / "no") : ""));
  }
  if (geteuid() == 0) {
    MESSAGE("run by root, who may write anywhere: no test of a folder that is not writable");
  } else {
    fs::create_directory(folder / "locked");
    chmod((folder / "locked").c_str(), 0500);
    CHECK(contains(thrown_error([&] { open_output(folder / "locked/out.h5"); }).what(),
                   "permission denied"));
  }
}

TEST_CASE("The same file can be read and written") {
  const TemporaryFolder folder;
  write_counting(folder / "x.h5", "x", {5});
  const InputBundle input = open_input(folder / "x.h5");
  OutputBundle output = open_output(folder / "x.h5", true);
  output.copy_from(input, {});
  const float one = 1;
  output.create("y", DType::f32, {}).write({}, {}, &one);
  output.commit();
  CHECK(values_of<float>(input.dataset("x")).size() == 5);
  CHECK(open_input(folder / "x.h5").names() == std::vector<std::string>{"x", "y"});
}
