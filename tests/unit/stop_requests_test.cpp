#include "system/stop_requests.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using attn::StopRequests;

namespace {

// How a process ends that runs body(), as of waitpid.
template <class Body>
int ending(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

bool killed_by(int status, int number) { return WIFSIGNALED(status) && WTERMSIG(status) == number; }
bool exited_with(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

}  // namespace

TEST_CASE("the first signal asks for a stop, the second ends the process") {
  CHECK(exited_with(ending([] {
                      const StopRequests requests;
                      std::raise(SIGUSR1);
                      const bool named = StopRequests::signal_name() == "SIGUSR1";
                      _exit(StopRequests::asked() && named ? 7 : 8);
                    }),
                    7));
  CHECK(killed_by(ending([] {
                    const StopRequests requests;
                    std::raise(SIGUSR1);
                    std::raise(SIGTERM);
                  }),
                  SIGTERM));
}

TEST_CASE("before the work begins a signal ends the process with a status") {
  CHECK(exited_with(ending([] {
                      const StopRequests requests(75, nullptr);
                      std::raise(SIGTERM);
                    }),
                    75));
}

TEST_CASE("signals after the run end the process, unless the run outlasts") {
  CHECK(killed_by(ending([] {
                    { const StopRequests requests; }
                    std::raise(SIGUSR2);
                  }),
                  SIGUSR2));
  CHECK(exited_with(ending([] {
                      {
                        StopRequests requests(75, nullptr);
                        requests.outlast();
                      }
                      std::raise(SIGUSR2);
                    }),
                    0));
  CHECK(killed_by(ending([] {
                    {
                      StopRequests requests;
                      requests.outlast();
                    }
                    std::raise(SIGUSR2);
                    std::raise(SIGUSR2);
                  }),
                  SIGUSR2));
}
