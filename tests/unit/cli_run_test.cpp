#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/command.hpp"
#include "redirected.hpp"

using namespace attn;
using namespace attn::cli;
using attn::testing::Redirected;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder of its own, gone at the end.
struct Folder {
  std::string path = std::filesystem::temp_directory_path() / "attn-cli-XXXXXX";
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

using Run = std::function<Outcome(const Arguments&, Report&)>;

struct Ran {
  int status = 0;
  int cleanups = 0;
  FailedRun failed;
  std::string out;
  std::string err;
};

Ran run(Role role, std::vector<std::string> words, const Run& body,
        const std::string& out_path = {}, bool silent = false) {
  const Folder folder;
  Declaration declaration("attn-try", "Tries", role);
  declaration.number("hybrid", "U", "Share", {0, 1});
  words.insert(words.begin(), "attn-try");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Ran ran;
  {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    const Redirected out(STDOUT_FILENO, out_path.empty() ? folder / "out" : out_path, flags);
    const Redirected err(STDERR_FILENO, folder / "err", flags);
    ran.status = run_tool(
        static_cast<int>(words.size()), argv.data(), declaration, body,
        [] { return std::vector<std::string>{"HDF5 1.10.8"}; },
        [&](const FailedRun& failed) {
          ++ran.cleanups;
          ran.failed = failed;
        },
        silent);
  }
  if (out_path.empty()) ran.out = contents(folder / "out");
  ran.err = contents(folder / "err");
  return ran;
}

Outcome say(const Arguments&, Report& report) {
  report.print("a table\n");
  report.result()["mean"] = 0.1;
  report.result()["worst"] = NAN;
  return {0, "dnas, 8 x 8"};
}

Run failing(Failure failure, const std::string& message, const std::string& hint = {}) {
  return [=](const Arguments&, Report&) -> Outcome { throw Error(failure, message, hint); };
}

}  // namespace

TEST_CASE("a table goes to standard output unless a bundle goes there; a summary is one line") {
  Ran ran = run(Role::transform, {"-o", "f"}, say);
  CHECK(ran.status == 0);
  CHECK(ran.out == "a table\n");
  CHECK(ran.err == "attn-try: dnas, 8 x 8\n");
  CHECK(ran.cleanups == 0);
  ran = run(Role::transform, {"-o", "-"}, say);
  CHECK(ran.out == "");
  CHECK(ran.err == "a table\nattn-try: dnas, 8 x 8\n");
  ran = run(Role::report, {}, say);
  CHECK(ran.out == "a table\n");
  ran = run(Role::report, {"-o", "-"}, say);
  CHECK(ran.out == "");
  CHECK(ran.err == "a table\nattn-try: dnas, 8 x 8\n");
  ran = run(Role::transform, {"--dry-run"}, say);
  CHECK(ran.out == "a table\n");
  ran = run(Role::report, {"-q"}, say);
  CHECK(ran.out == "");
  CHECK(ran.err == "");
}

TEST_CASE("failures have their exit status, one line and a hint") {
  const Run body = failing(Failure::input, "no\nq", "give\none");
  Ran ran = run(Role::transform, {}, body);
  CHECK(ran.status == 3);
  CHECK(ran.out == "");
  CHECK(ran.err == "attn-try: error: no q\nattn-try: hint: give one\n");
  CHECK(ran.cleanups == 1);
  CHECK(run(Role::transform, {"-q"}, body).err == ran.err);
  CHECK(run(Role::transform, {}, failing(Failure::numerical, "x")).err == "attn-try: error: x\n");
  CHECK(run(Role::transform, {}, failing(Failure::numerical, "x")).status == 4);
  CHECK(run(Role::transform, {}, failing(Failure::output, "x")).status == 5);
  CHECK(run(Role::transform, {}, failing(Failure::memory, "x")).status == 6);

  ran = run(Role::transform, {},
            [](const Arguments&, Report&) -> Outcome { throw std::bad_alloc(); });
  CHECK(ran.status == 6);
  CHECK(ran.err.rfind("attn-try: error: out of memory\nattn-try: hint: ", 0) == 0);
  ran = run(Role::transform, {},
            [](const Arguments&, Report&) -> Outcome { throw std::runtime_error("oh"); });
  CHECK(ran.status == 70);
  CHECK(ran.err == "attn-try: error: internal: oh\n");
  ran = run(Role::transform, {}, [](const Arguments&, Report&) -> Outcome { throw 1; });
  CHECK(ran.status == 70);
}

TEST_CASE("a wrong command line") {
  const Ran ran = run(Role::transform, {"--forse"}, say);
  CHECK(ran.status == 2);
  CHECK(ran.out == "");
  CHECK(ran.err ==
        "attn-try: error: unknown option --forse\n"
        "attn-try: hint: did you mean --force?\n");
}

TEST_CASE("options that print information win over mistakes") {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--help"}, {"-h"}, {"--bad", "--help"}, {"-qh"}}) {
    const Ran ran = run(Role::transform, words, say);
    CHECK(ran.status == 0);
    CHECK(ran.out.rfind("Usage: attn-try", 0) == 0);
    CHECK(ran.err == "");
  }
  CHECK(run(Role::transform, {"--version"}, say).out.find("\nHDF5 1.10.8\n") != std::string::npos);
  CHECK(run(Role::transform, {"--bad", "--man"}, say).out.find(".SH NAME\n") != std::string::npos);
  const std::string script = run(Role::transform, {"--bad", "--completion=bash"}, say).out;
  CHECK(script.find("complete -F _attn_try attn-try\n") != std::string::npos);
  CHECK(run(Role::transform, {"--completion", "bash"}, say).out == script);
  CHECK(run(Role::transform, {"--", "--help"}, say).out == "");
  CHECK(run(Role::transform, {"--", "--completion=bash"}, say).out == "");

  const Ran refused = run(Role::transform, {"--completion=tcsh"}, say);
  CHECK(refused.status == 2);
  CHECK(refused.err == "attn-try: error: --completion is tcsh, expected one of bash, zsh, fish\n");
  CHECK(run(Role::transform, {"--completion"}, say).err ==
        "attn-try: error: --completion needs a value\n");
}

TEST_CASE("warnings") {
  const Run body = [](const Arguments&, Report& report) -> Outcome {
    report.warn("mind\nthis");
    return {};
  };
  CHECK(run(Role::transform, {}, body).err == "attn-try: warning: mind this\n");
  CHECK(run(Role::transform, {"-q"}, body).err == "");
  const Ran ran = run(Role::report, {"--json", "-q"}, body);
  CHECK(nlohmann::json::parse(ran.out)["warnings"] == nlohmann::json::array({"mind this"}));
}

TEST_CASE("the JSON report") {
  const Run body = [](const Arguments&, Report& report) -> Outcome {
    report.input("q", "in.h5:/q", {8, 2}, "float32");
    report.output("out", "out.h5:/out", {}, DType::f64);
    report.params()["precision"] = "f64";
    report.result()["third"] = 1.0 / 3.0;
    report.result()["worst"] = INFINITY;
    report.result()["name"] = "bad\xff";
    report.add_compute_seconds(0.25);
    report.add_compute_seconds(0.5);
    report.print("a table\n");
    return {1, ""};
  };
  const Ran ran = run(Role::report, {"--json", "--threads", "3", "in.h5"}, body);
  CHECK(ran.status == 1);
  CHECK(ran.err == "");
  CHECK(ran.cleanups == 0);
  const auto json = nlohmann::ordered_json::parse(ran.out);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"schema", "tool", "version", "status", "inputs", "outputs",
                                         "params", "result", "runtime", "warnings"});
  CHECK(json["schema"] == "attnkit/1");
  CHECK(json["tool"] == "attn-try");
  CHECK(json["status"] == "no");
  CHECK(json["inputs"].dump() ==
        R"([{"name":"q","address":"in.h5:/q","shape":[8,2],"dtype":"float32"}])");
  CHECK(json["outputs"][0]["shape"].dump() == "[]");
  CHECK(json["params"]["precision"] == "f64");
  CHECK(json["params"]["hybrid"].is_null());
  CHECK(json["result"]["third"].get<double>() == 1.0 / 3.0);
  CHECK(json["result"]["worst"].is_null());
  CHECK(json["runtime"]["compute_s"] == 0.75);
  CHECK(json["runtime"]["wall_s"].get<double>() > 0);
  CHECK(json["runtime"]["peak_rss_bytes"].get<double>() > 1e5);
  CHECK(json["runtime"]["threads"] == 3);
  CHECK(ran.out.find("\n      \"shape\": [8,2],\n") != std::string::npos);
}

TEST_CASE("the status in the JSON") {
  const auto status = [](const Run& body) {
    return nlohmann::json::parse(run(Role::report, {"--json"}, body).out)["status"];
  };
  CHECK(status([](const Arguments&, Report&) { return Outcome{0, ""}; }) == "ok");
  CHECK(status([](const Arguments&, Report& report) {
          report.status("not_converged");
          return Outcome{1, ""};
        }) == "not_converged");
  CHECK(status(failing(Failure::input, "x")) == "error");
  CHECK(status([](const Arguments&, Report& report) -> Outcome {
          report.status("infeasible");
          throw Error(Failure::numerical, "x");
        }) == "infeasible");
}

TEST_CASE("a failed run still writes its JSON") {
  const Folder folder;
  const std::string file = folder / "report.json";
  Ran ran = run(Role::transform, {"--json=" + file}, failing(Failure::input, "no q", "give one"));
  CHECK(ran.status == 3);
  CHECK(nlohmann::json::parse(contents(file))["error"].dump() ==
        R"({"exit":3,"hint":"give one","message":"no q"})");
  ran = run(Role::transform, {"--json=" + file, "--hybrid", "2"}, say);
  CHECK(ran.status == 2);
  CHECK(nlohmann::json::parse(contents(file))["error"]["exit"] == 2);
  ran = run(Role::report, {"--json", "--bad"}, say);
  CHECK(nlohmann::json::parse(ran.out)["error"]["message"] == "unknown option --bad");
}

TEST_CASE("a JSON file appears whole, keeps links and modes, and leaves nothing beside it") {
  const Folder folder;
  const std::string file = folder / "report.json";
  { std::ofstream(file) << "old"; }
  chmod(file.c_str(), 0640);
  REQUIRE(symlink(file.c_str(), (folder / "link").c_str()) == 0);
  CHECK(run(Role::transform, {"--json=" + (folder / "link")}, say).status == 0);
  CHECK(nlohmann::json::parse(contents(file))["result"]["mean"] == 0.1);
  CHECK(std::filesystem::is_symlink(folder / "link"));
  struct stat status = {};
  REQUIRE(stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 2);
}

TEST_CASE("a JSON destination that cannot be written is refused before the run") {
  bool ran_at_all = false;
  const Run body = [&](const Arguments&, Report&) -> Outcome {
    ran_at_all = true;
    return {};
  };
  const Ran ran = run(Role::transform, {"--json=/nonexistent/report.json"}, body);
  CHECK(ran.status == 5);
  CHECK(ran.err == "attn-try: error: --json=/nonexistent/report.json: no such file or directory\n");
  CHECK(run(Role::transform, {"--json=/tmp"}, body).status == 5);
  CHECK_FALSE(ran_at_all);
}

TEST_CASE("JSON on standard error is appended to earlier output") {
  const Ran ran =
      run(Role::transform, {"--json=/dev/stderr"}, [](const Arguments&, Report& report) {
        report.warn("first");
        return Outcome{};
      });
  CHECK(ran.err.rfind("attn-try: warning: first\n{\n", 0) == 0);
}

TEST_CASE("a full disk under standard output is noticed") {
  const Ran ran = run(Role::report, {}, say, "/dev/full");
  CHECK(ran.status == 5);
  CHECK(ran.err == "attn-try: error: standard output: no space left on device\n");
  CHECK(ran.cleanups == 1);
  CHECK(run(Role::report, {"--json"}, say, "/dev/full").status == 5);
  CHECK(run(Role::report, {"--help"}, say, "/dev/full").status == 5);
  CHECK(run(Role::report, {"--json=/dev/full"}, say).status == 5);
}

TEST_CASE("a silent run writes nothing and passes its failure on") {
  const Folder folder;
  const std::string json = "--json=" + (folder / "report.json");
  const auto silent = [&](std::vector<std::string> words, const Run& body) {
    words.push_back(json);
    const Ran ran = run(Role::report, words, body, {}, true);
    CHECK(ran.out == "");
    CHECK(ran.err == "");
    CHECK_FALSE(std::filesystem::exists(folder / "report.json"));
    return ran;
  };
  CHECK(silent({}, say).status == 0);
  CHECK(silent({"--help"}, say).status == 0);
  CHECK(silent({"--hybrid", "2"}, say).status == 2);
  CHECK(silent({}, [](const Arguments&, Report& report) {
          report.warn("first");
          report.note("second");
          return Outcome{};
        }).status == 0);
  const Ran ran = silent({}, failing(Failure::input, "no q", "give one"));
  CHECK(ran.status == 3);
  CHECK(ran.failed.status == 3);
  CHECK(ran.failed.lines == "attn-try: error: no q\nattn-try: hint: give one\n");
}
