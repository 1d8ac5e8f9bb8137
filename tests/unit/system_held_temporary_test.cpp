// lib/system: the temporary of a file, which one holder at a time has.

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "io_fixture.hpp"
#include "system/held_temporary.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

using Names = std::vector<std::string>;

struct Held {
  TemporaryName name;
  Descriptor descriptor;
};

Held hold(const TemporaryFolder& folder, const std::string& name) {
  Held held;
  held.descriptor = hold_temporary(folder.path(), name, 0640, held.name);
  return held;
}

}  // namespace

TEST_CASE("one holder at a time, and any number one after the other") {
  const TemporaryFolder folder;
  for (int n = 0; n < 3; ++n) {
    const Held first = hold(folder, "a.h5");
    REQUIRE(first.descriptor);
    CHECK(first.name.path() == folder / ".a.h5.tmp");
    const Held second = hold(folder, "a.h5");
    CHECK_FALSE(second.descriptor);
    CHECK(errno == EWOULDBLOCK);
    CHECK(second.name.path().empty());
    const Held other = hold(folder, "b.h5");
    CHECK(other.descriptor);
    CHECK(folder.entries() == Names{".a.h5.tmp", ".b.h5.tmp"});
  }
  CHECK(folder.entries().empty());
}

TEST_CASE("what nobody holds is removed, and its content and mode with it") {
  const TemporaryFolder folder;
  write_file(folder / ".a.h5.tmp", "left behind");
  chmod((folder / ".a.h5.tmp").c_str(), 0600);
  const Held held = hold(folder, "a.h5");
  REQUIRE(held.descriptor);
  struct stat status {};
  REQUIRE(fstat(held.descriptor.get(), &status) == 0);
  CHECK(status.st_size == 0);
  CHECK((status.st_mode & 07200) == 0200);
  CHECK(folder.entries() == Names{".a.h5.tmp"});
}

TEST_CASE("a file that took its name holds the temporary no longer") {
  const TemporaryFolder folder;
  Held first = hold(folder, "a.h5");
  REQUIRE(rename(first.name.path().c_str(), (folder / "a.h5").c_str()) == 0);
  first.name.release();
  const Held second = hold(folder, "a.h5");
  CHECK(second.descriptor);
  CHECK(folder.entries() == Names{".a.h5.tmp", "a.h5"});
}

TEST_CASE("where the name cannot be held it is random") {
  const TemporaryFolder folder;
  REQUIRE(symlink("elsewhere", (folder / ".a.h5.tmp").c_str()) == 0);
  const std::string longest(250, 'x');
  const std::string too_long(251, 'x');
  CHECK(hold(folder, longest).name.path() == folder / ("." + longest + ".tmp"));
  for (const std::string& name : {std::string("a.h5"), too_long}) {
    const Held one = hold(folder, name);
    const Held two = hold(folder, name);
    CHECK(one.descriptor);
    CHECK(two.descriptor);
    CHECK(one.name.path() != two.name.path());
  }
  CHECK(folder.entries() == Names{".a.h5.tmp"});
}

TEST_CASE("errors of the folder") {
  const TemporaryFolder folder;
  TemporaryName name;
  CHECK_FALSE(hold_temporary(folder / "none", "a.h5", 0600, name));
  CHECK(errno == ENOENT);
}
