#include "claim_check/command_trace.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "claim_check/traced_call.hpp"
#include "io_fixture.hpp"

using namespace attn;
using namespace attn::tools;
using attn::testing::TemporaryFolder;
using CallOutcome = TracedCall::Outcome;

namespace {

// As strace -xx writes it.
std::string hex(const std::string& text) {
  std::string all;
  for (const char c : text) all += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return all;
}

std::string quoted(const std::string& text) { return '"' + hex(text) + '"'; }
std::string at(const std::string& folder) { return "AT_FDCWD<" + hex(folder) + ">, "; }

TracedCall call_in(const std::string& line) {
  const auto call = traced_call(line);
  REQUIRE(call);
  return *call;
}

// A command in FOLDER/all/own, with lines for each process; "+++ exited" is added to each.
class Command {
 public:
  Command() { std::filesystem::create_directories(own()); }

  std::string own() const { return folder_ / "all/own"; }
  std::string all() const { return folder_ / "all"; }
  std::string beside(const std::string& name) const { return folder_ / name; }

  CommandReads reads(const std::map<int, std::vector<std::string>>& lines,
                     const std::string& end = "+++ exited with 0 +++\n") const {
    std::filesystem::remove_all(folder_ / "traces");
    std::filesystem::create_directory(folder_ / "traces");
    for (const auto& [process, list] : lines) {
      std::ofstream file(folder_ / ("traces/trace." + std::to_string(process)));
      for (const std::string& line : list) file << line << '\n';
      file << end;
    }
    return read_trace(folder_ / "traces/trace", own(), all());
  }

  // What one line reads.
  std::string more(const std::string& line) const { return reads({{7, {line}}}).more; }
  std::vector<std::string> paths(const std::string& line) const {
    const CommandReads found = reads({{7, {line}}});
    CHECK(found.more == "");
    std::vector<std::string> all;
    for (const auto& [path, look] : found.looks) all.push_back(path);
    return all;
  }

 private:
  TemporaryFolder folder_;
};

using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("a line of strace is a call with its paths") {
  const std::string odd = "a \"b\n>\xff, \"";
  const TracedCall open = call_in("openat(" + at("/x y") + quoted(odd) + ", O_RDONLY|O_PATH) = 3<" +
                                  hex("/x y/" + odd) + ">(deleted)");
  CHECK(open.name == "openat");
  CHECK(open.outcome == CallOutcome::done);
  CHECK(open.value == 3);
  CHECK(open.opened == "/x y/" + odd);
  CHECK(open.descriptor == "/x y");
  REQUIRE(open.paths.size() == 1);
  CHECK(open.paths[0].folder == "/x y");
  CHECK(open.paths[0].path == odd);
  CHECK(open.arguments.find("O_PATH") != std::string::npos);
  const TracedCall link = call_in("linkat(" + at("/a") + quoted("x") + ", 4<" + hex("/b") +
                                  ">(deleted), " + quoted("y") + ", 0) = 0");
  REQUIRE(link.paths.size() == 2);
  CHECK(link.paths[1].folder == "/b");
  CHECK(link.paths[1].path == "y");
  const TracedCall run = call_in("execve(" + quoted("/b/p") +
                                 ", [\"\"..., \"\"...], 0x7ffe /* 20 vars */) = -1 ENOENT (No such "
                                 "file or directory)");
  CHECK(run.outcome == CallOutcome::absent);
  CHECK(run.paths[0].path == "/b/p");
  CHECK_FALSE(run.paths[0].cut);
  CHECK(run.paths[1].cut);
  CHECK(call_in("chdir(" + quoted("/") + ")       = 0").outcome == CallOutcome::done);
  CHECK(call_in("mkdir(" + quoted("/") + ", 0777) = -1 EEXIST (File exists)").outcome ==
        CallOutcome::exists);
  CHECK(call_in("access(" + quoted("/") + ", R_OK) = -1 EACCES (Permission denied)").outcome ==
        CallOutcome::failed);
  CHECK(call_in("open(" + quoted("f") + ", O_RDONLY) = ? ERESTARTSYS (To be restarted)").outcome ==
        CallOutcome::unknown);
  CHECK(call_in("open(" + quoted("f") + ", O_RDONLY <unfinished ...>) = ?").outcome ==
        CallOutcome::unknown);
  CHECK(call_in("vfork()        = 812").value == 812);
  CHECK(call_in("fchdir(3<" + hex("/a") + ">) = 0").descriptor == "/a");
  CHECK_FALSE(traced_call("+++ exited with 0 +++"));
  CHECK_FALSE(traced_call(""));
}

TEST_CASE("what a command looks at outside of its folder") {
  const Command command;
  const std::string here = at(command.own());
  CHECK(command.paths("access(" + quoted("/a b") + ", R_OK) = 0") == Paths{"/a b"});
  CHECK(command.paths("access(" + quoted("x") + ", R_OK) = 0") == Paths{});
  CHECK(command.paths("access(" + quoted("../../x") + ", R_OK) = 0") == Paths{command.beside("x")});
  CHECK(command.paths("readlink(" + quoted("/l") + ", \"\"..., 64) = 12") == Paths{"/l"});
  CHECK(command.paths("newfstatat(3<" + hex("/a") + ">, " + quoted("b") + ", {}, 0) = 0") ==
        Paths{"/a/b"});
  CHECK(command.paths("newfstatat(3<" + hex("/a") + ">, \"\", {}, AT_EMPTY_PATH) = 0") == Paths{});
  CHECK(command.paths("openat(" + here + quoted("l") + ", O_RDONLY) = 3<" + hex("/a") + ">") ==
        Paths{"/a"});
  CHECK(command.paths("openat(" + here + quoted("o") + ", O_WRONLY|O_CREAT, 0666) = 3<" +
                      hex(command.own() + "/o") + ">") == Paths{});
  CHECK(command.paths("openat(" + here + quoted("/dev/null") + ", O_WRONLY) = 3<" +
                      hex("/dev/null") + ">") == Paths{});
  CHECK(command.paths("openat(" + here + quoted("/dev/fd/9") + ", O_RDONLY) = 3<" +
                      hex("pipe:[1]") + ">") == Paths{});
  CHECK(command.paths("openat(" + here + quoted("/proc/self/fd/9") + ", O_RDONLY) = 3<" +
                      hex("/a") + ">") == Paths{"/a"});
  CHECK(command.paths("stat(" + quoted("/proc/self/../../etc") + ", {}) = 0") ==
        Paths{"/proc/self/../../etc"});
  CHECK(command.paths("stat(" + quoted("/dev/shm/x") + ", {}) = 0") == Paths{"/dev/shm/x"});
  CHECK(command.paths("stat(" + quoted(command.all()) + ", {}) = 0") == Paths{});
  CHECK(command.paths("mkdir(" + quoted("/a") + ", 0777) = -1 EEXIST (File exists)") ==
        Paths{"/a"});
  CHECK(command.paths("symlink(" + quoted("/a") + ", " + quoted("l") + ") = 0") == Paths{"/a"});
  CHECK(command.paths("connect(3<" + hex("socket:[1]") +
                      ">, {sa_family=AF_UNIX, sun_path=" + quoted("/run/s") +
                      "}, 10) = -1 ENOENT (No such file or directory)") == Paths{"/run/s"});
  const auto looks = command
                         .reads({{7,
                                  {"access(" + quoted("/a") + ", R_OK) = -1 ENOENT (No such)",
                                   "open(" + quoted("/b") + ", O_RDONLY) = 3<" + hex("/b") + ">",
                                   "open(" + quoted("/c") + ", O_PATH) = 4<" + hex("/c") + ">"}}})
                         .looks;
  CHECK((looks.at("/a").missed && !looks.at("/a").found && !looks.at("/a").opened));
  CHECK((looks.at("/b").opened && looks.at("/b").found && !looks.at("/b").missed));
  CHECK((!looks.at("/c").opened && looks.at("/c").found));
}

TEST_CASE("relative paths are those of each process") {
  const Command command;
  const auto access = [](const std::string& path) { return "access(" + quoted(path) + ", 0) = 0"; };
  const std::string clone = "clone(child_stack=NULL, flags=SIGCHLD) = ";
  const auto found =
      command.reads({{5, {"chdir(" + quoted("/five") + ") = 0", access("x")}},
                     {6, {access("x"), "fchdir(3<" + hex("/six") + ">) = 0", access("x")}},
                     {9,
                      {"chdir(" + quoted("/a") + ") = 0", clone + "5",
                       "chdir(" + quoted("b") + ") = 0", "vfork() = 6", access("../x"),
                       "chdir(" + quoted("c") + ") = -1 ENOENT (No such file)", access("y")}}});
  CHECK(found.more == "");
  Paths paths;
  for (const auto& [path, look] : found.looks) paths.push_back(path);
  CHECK(paths == Paths{"/a", "/a/b", "/a/b/../x", "/a/b/c", "/a/b/x", "/a/b/y", "/five", "/five/x",
                       "/six/x"});
  const std::string thread = "clone3({flags=CLONE_VM|CLONE_FS|CLONE_THREAD}, 88) = 5";
  const std::string move = "chdir(" + quoted("/a") + ") = 0";
  CHECK(command.reads({{4, {move, thread}}, {5, {access("x")}}}).looks.count("/a/x") == 1);
  CHECK(command.reads({{4, {thread, move}}, {5, {}}}).more != "");
  CHECK(command.reads({{4, {thread}}, {5, {move}}}).more != "");
}

TEST_CASE("a command is not known that does more than to look") {
  const Command command;
  const std::string here = at(command.own());
  CHECK(command.reads({{7, {}}}).more == "");
  CHECK(command.reads({{7, {}}}, "").more == "a process of it was not traced to its end");
  CHECK(command.reads({}).more == "it was not traced");
  CHECK(command.reads({{7, {}}, {8, {}}}).more != "");
  CHECK(command.reads({{7, {"vfork() = 8"}}}).more == "a process of it was not traced");
  CHECK(command.reads({{6, {"vfork() = 8", "vfork() = 8"}}, {8, {}}}).more != "");
  for (const std::string line :
       {"socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 3<>",
        "connect(3<>, {sa_family=AF_UNIX, sun_path=\"\"}, 10) = 0", "listen(3<>, 1) = 0",
        "io_uring_setup(8, {}) = 3", "unshare(CLONE_NEWNS) = 0", "shmget(0x1, 8, 0) = 1",
        "clone(child_stack=NULL, flags=CLONE_NEWNS|SIGCHLD) = -1 EPERM (Not permitted)",
        "openat(0x7ff, 0x8, O_RDONLY) = 3", "anything", "some_new_call(\"\"...) = 0"}) {
    CAPTURE(line);
    CHECK(command.more(line) != "");
  }
  for (const std::string path : {"/a", "../other", "..", "/dev/shm/a"}) {
    for (const std::string call : {"mkdir", "unlink", "some_new_call", "chmod", "statfs"}) {
      CAPTURE(path + " " + call);
      CHECK(command.more(call + "(" + quoted(path) + ", 0) = 0") != "");
      CHECK(command.more(call + "(" + quoted(path) + ", 0) = -1 EACCES (Permission denied)") != "");
    }
    CHECK(command.more("openat(" + here + quoted(path) + ", O_RDWR) = -1 EACCES (No)") != "");
    CHECK(command.more("rename(" + quoted("x") + ", " + quoted(path) + ") = 0") != "");
    CHECK(command.more("rename(" + quoted(path) + ", " + quoted("x") + ") = 0") != "");
  }
  CHECK(command.more("openat(" + here + quoted("l") + ", O_RDWR) = 3<" + hex("/a") + ">") != "");
  CHECK(command.more("openat(" + here + quoted("..") + ", O_RDONLY) = 3<" + hex(command.all()) +
                     ">") != "");
  CHECK(command.more("stat(" + quoted("../other/x") + ", {}) = 0") != "");
  CHECK(command.more("stat(" + quoted("/proc/self/cwd/x") + ", {}) = 0") != "");
  CHECK(command.more("stat(" + quoted("/proc/7/root/x") + ", {}) = 0") != "");
  CHECK(command.more("stat(" + quoted("/dev/fd/3/x") + ", {}) = 0") != "");
  CHECK(command.more("symlink(" + quoted("/tmp") + ", " + quoted("l") + ") = 0") != "");
  CHECK(command.more("symlink(" + quoted("a/../../..") + ", " + quoted("l") + ") = 0") != "");
  CHECK(command.more("symlink(" + quoted("/a") + ", " + quoted("/l") + ") = 0") != "");
}

TEST_CASE("programs are known with what starts them") {
  const Command command;
  const auto script = [&](const std::string& name, const std::string& text) {
    std::ofstream(command.beside(name)) << text;
    return command.beside(name);
  };
  const auto run = [](const std::string& path) {
    return "execve(" + quoted(path) + ", [], 0x1) = 0";
  };
  const std::string inner = script("inner", "#!/bin/sh\n");
  const std::string outer = script("outer", "#! " + inner + " -x\n");
  const Paths found = command.paths(run(outer));
  // The shell has a loader of its own.
  CHECK(found.size() == 4);
  for (const std::string& path : {inner, outer, std::string("/bin/sh")}) {
    CHECK(std::count(found.begin(), found.end(), path) == 1);
  }
  CHECK(command.more(run(script("empty", ""))) != "");
  CHECK(command.more(run(script("text", "echo\n"))) != "");
  CHECK(command.more(run(script("relative", "#!sh\n"))) != "");
  CHECK(command.more(run(script("blank", "#!  "))) != "");
  CHECK(command.more(run(script("elf",
                                "\x7f"
                                "ELF\x01\x01\x01"))) != "");
  CHECK(command.more(run(command.beside("gone"))) != "");
  CHECK(command.more("execve(" + quoted("/gone") + ", [], 0x1) = -1 ENOENT (No such file)") == "");
}
