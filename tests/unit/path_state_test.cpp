#include "claim_check/path_state.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "claim_check/digests.hpp"
#include "io_fixture.hpp"

using namespace attn::tools;
using attn::testing::TemporaryFolder;

namespace fs = std::filesystem;

TEST_CASE("SHA-256 of texts and files") {
  // FIPS 180-4, example B.1, and the empty text.
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  CHECK(sha256("abc") == abc);
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << "abc";
  CHECK(sha256_of_file(folder / "a") == abc);
  const std::string large(3000000, 'x');
  std::ofstream(folder / "large") << large;
  CHECK(sha256_of_file(folder / "large") == sha256(large));
  CHECK_FALSE(sha256_of_file(folder / "b"));
  CHECK_FALSE(sha256_of_file(folder.path()));
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK_FALSE(sha256_of_file(folder / "fifo"));
}

TEST_CASE("a state changes with what a path leads to") {
  const TemporaryFolder folder;
  const std::string file = folder / "a";
  PathStates states;
  const auto text = [&](const std::string& path, bool opened = false) {
    const auto state = states.of(path, opened);
    REQUIRE(state);
    return state->text;
  };
  const std::string none = text(file);
  CHECK_FALSE(states.of(file, false)->is_there);
  std::ofstream(file) << "abc";
  const std::string first = text(file, true);
  CHECK(first != none);
  CHECK(states.of(file, false)->is_there);
  // A file of the same size, at once.
  std::ofstream(file) << "abd";
  const std::string second = text(file, true);
  CHECK(second != first);
  std::ofstream(file) << "abc";
  CHECK(text(file, true) == first);
  // The time counts unless the file is opened.
  const std::string seen = text(file);
  fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(1));
  CHECK(text(file) != seen);
  CHECK(text(file, true) == first);
  fs::create_hard_link(file, folder / "hard");
  CHECK(text(file, true) != first);
  CHECK(states.of(file, true)->file == states.of(folder / "hard", true)->file);
  fs::remove(folder / "hard");
  CHECK(text(file, true) == first);
  fs::permissions(file, fs::perms::owner_exec, fs::perm_options::add);
  CHECK(text(file, true) != first);

  const std::string link = folder / "link";
  fs::create_symlink("a", link);
  const std::string by_link = text(link);
  CHECK(by_link != text(file));
  std::ofstream(file) << "abd";
  CHECK(text(link) != by_link);
  fs::remove(link);
  fs::create_symlink("gone", link);
  CHECK(text(link) != by_link);
  CHECK(states.of(link, false)->is_there);
  CHECK_FALSE(states.of(link, false)->leads_somewhere);

  const std::string plain = text(folder.path());
  const std::string names = text(folder.path(), true);
  std::ofstream(file) << "other";
  CHECK(text(folder.path(), true) == names);
  std::ofstream(folder / "b") << "";
  CHECK(text(folder.path(), true) != names);
  CHECK(text(folder.path()) == plain);
  fs::remove(folder / "b");
  CHECK(text(folder.path(), true) == names);
  fs::remove(file);
  fs::create_directory(file);
  CHECK(text(folder.path(), true) != names);
  CHECK(text("/dev/null") != text("/dev/zero"));
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK_FALSE(states.of(folder / "fifo", false));
}

TEST_CASE("a state tells when it changed") {
  const TemporaryFolder folder;
  const std::string file = folder / "a";
  PathStates states;
  const std::int64_t before = file_time_now();
  std::ofstream(file) << "abc";
  CHECK(states.of(file, false)->changed >= before);
  fs::create_symlink("/dev/null", folder / "link");
  CHECK(states.of(folder / "link", false)->changed >= before);
  CHECK(states.of(folder.path(), true)->changed >= before);
  CHECK(states.of(folder.path(), false)->changed == 0);
  CHECK(states.of("/usr", true)->changed < before);
  CHECK(states.of(folder / "gone", false)->changed == 0);
  // Not by a time that is written into a file.
  usleep(30000);
  const std::int64_t later = file_time_now();
  fs::last_write_time(file, fs::file_time_type::min() + std::chrono::hours(1 << 20));
  CHECK(states.of(file, false)->changed >= later);
}
