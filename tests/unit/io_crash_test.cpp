#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "io/hdf5/h5.hpp"
#include "io/output.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::io;
using attn::testing::contains;

namespace {

struct End {
  int status = 0;  // as returned by waitpid
  std::string error;
};

/// How a child process that crashes inside or outside a Lock ends.
End crash(bool in_library) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (const int number : {SIGSEGV, SIGABRT}) signal(number, SIG_DFL);  // doctest has its own
    install_cleanup_handlers();
    if (in_library) {
      const h5::Lock lock;
      h5::set_subject("a.h5:/tokens");
      raise(SIGSEGV);
    } else {
      raise(SIGSEGV);
    }
    _exit(0);
  }
  close(ends[1]);
  End end;
  std::array<char, 1024> buffer{};
  for (ssize_t count = 0; (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    end.error.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  REQUIRE(waitpid(child, &end.status, 0) == child);
  return end;
}

}  // namespace

TEST_CASE("A crash inside HDF5 is reported as bad input, our own crash as a crash") {
  const End in_library = crash(true);
  REQUIRE(WIFEXITED(in_library.status));
  CHECK(WEXITSTATUS(in_library.status) == 3);
  CHECK(contains(in_library.error, ": error: a.h5:/tokens is damaged: HDF5 crashed on it\n"));
  const End elsewhere = crash(false);
  CHECK(WIFSIGNALED(elsewhere.status));
  CHECK(elsewhere.error.empty());
}
