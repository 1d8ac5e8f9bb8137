#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "attnkit/version.hpp"
#include "cli/help.hpp"
#include "cli/parse.hpp"
#include "cli/words.hpp"

using namespace attn::cli;

namespace {

// An option of every kind, long and short labels, verbs with roles of their own.
Declaration everything() {
  Declaration declaration("attn-try", "Tries every kind of option", Role::transform);
  declaration
      .about(
          "A paragraph that is long enough to be broken at eighty columns, with λ and "
          "≥ that take one column each.")
      .about("Another one.")
      .verbs("VERB", {{"step", "Takes a step."}, {"check", "Checks a step.", Role::report}})
      .section("Scores")
      .choice("energy", {"scaled-dot", "dot", "gaussian"}, "What a score is.", "scaled-dot")
      .number("scale", "X", "Multiplies the energy", Declaration::Range::any(), 1.0)
      .default_words("as recorded in the bundle")
      .optional_choice("causal", {"top-left", "bottom-right"}, "Lets query i see the keys up to i")
      .default_words("none")
      .section("Scheme")
      .number("hybrid", "U", "Share of dnas", {0, 1})
      .integer("iterations", "T", "Iterations", 1, 1000, 10)
      .only_with({"step"})
      .choices("emit", {"out", "weights"}, "What to write", "out")
      .numbers("epsilon", "LIST", "Thresholds", Declaration::Range::positive(), {1e-8, 1e-4})
      .integers("counts", "LIST", "Points of each cluster", 1, attn::Index{1} << 40)
      .default_words("one for each centre")
      .points("centres", "POINTS", "Centres of the clusters")
      .text("an-option-of-a-long-name", "WHAT", "Stands above its explanation")
      .flag("residual", "Adds the input")
      .seeded()
      .example("attn-try step in.h5 -o out.h5", "Takes a step.")
      .example("attn-try check in.h5", "")
      .exit_status(1, "the check failed");
  return declaration;
}

// The text of a golden file; if ATTN_UPDATE_GOLDEN is set, `now` replaces it first.
std::string golden(const std::string& name, const std::string& now) {
  const char* const source = std::getenv("ATTN_SOURCE");
  const std::string here = __FILE__;
  const std::string root = source != nullptr ? source : here.substr(0, here.rfind("/tests/unit/"));
  const std::string path = root + "/tests/golden/" + name;
  if (std::getenv("ATTN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << now;
  std::ifstream file(path);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("--help matches the golden file") {
  const std::string text = help_text(everything());
  CHECK(text == golden("cli_help.txt", text));
}

TEST_CASE("--help fits into 80 columns") {
  for (const Role role : {Role::transform, Role::optional_input, Role::report, Role::generator,
                          Role::inspect, Role::compare}) {
    std::istringstream lines(help_text(Declaration("attn-try", "Tries", role)));
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(width(line) <= 80);
      CHECK((line.empty() || line.back() != ' '));
    }
  }
}

TEST_CASE("--help shows the options of the role") {
  const auto shows = [](Role role, const std::string& what) {
    return help_text(Declaration("attn-try", "Tries", role)).find(what) != std::string::npos;
  };
  CHECK(shows(Role::transform, "Usage: attn-try [options] [INPUT] [-o OUTPUT]\n"));
  CHECK(shows(Role::generator, "Usage: attn-try [options] [-o OUTPUT]\n"));
  CHECK(shows(Role::compare, "Usage: attn-try [options] A B\n"));
  CHECK_FALSE(shows(Role::compare, "--output"));
  CHECK(shows(Role::inspect, "Usage: attn-try [options] [INPUT]\n"));
  for (const char* option : {"--output", "--only", "--precision", "--dry-run"}) {
    CHECK_FALSE(shows(Role::inspect, option));
  }
  CHECK_FALSE(shows(Role::generator, "--only"));
  CHECK_FALSE(shows(Role::transform, "--seed"));
}

TEST_CASE("--help shows options of one heading together, the common ones last") {
  const std::string text = help_text(Declaration("attn-try", "Tries", Role::compare)
                                         .section("First")
                                         .flag("one", "One")
                                         .section("Second")
                                         .flag("two", "Two")
                                         .allow_external()
                                         .section("First")
                                         .flag("three", "Three"));
  std::size_t at = 0;
  for (const char* part : {"First:", "--one", "--three", "Second:", "--two",
                           "Common options:", "--allow-external", "--threads"}) {
    const std::size_t found = text.find(part, at);
    CAPTURE(part);
    REQUIRE(found != std::string::npos);
    at = found;
  }
  CHECK(text.find("First:", text.find("First:") + 1) == std::string::npos);
}

TEST_CASE("--help names the first and the last of a series of words") {
  const std::string text = help_text(
      Declaration("attn-try", "Tries", Role::transform)
          .choices("emit", {"out", "w1", "w2", "w3", "k8", "k9", "k10", "k11", "v3", "v5", "v6"},
                   "What", "out"));
  CHECK(text.find("out, w1, w2, w3, k8 ... k11, v3, v5, v6,") != std::string::npos);
}

TEST_CASE("--help of a tool that may be called without a verb") {
  const std::string text =
      help_text(Declaration("attn-try", "Tries", Role::transform)
                    .verbs("VERB", {{"", "Makes."}, {"check", "Checks.", Role::inspect}})
                    .flag("fast", "Fast")
                    .only_with({""})
                    .flag("strict", "Strict")
                    .only_with({"check"})
                    .flag("all", "All")
                    .only_with({"", "check"}));
  for (const char* part : {"Usage: attn-try [VERB] [options] [INPUT] [-o OUTPUT]\n",
                           "  (no VERB)             Makes.\n", "  check                 Checks.\n",
                           "Fast. Only without a verb.\n", "Strict. Only with check.\n",
                           "All. Only with check, or without a verb.\n"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("the numbers of the version are those of its text") {
  CHECK(fmt::format("{}.{}.{}", ATTNKIT_VERSION_MAJOR, ATTNKIT_VERSION_MINOR,
                    ATTNKIT_VERSION_PATCH) == ATTNKIT_VERSION);
  CHECK(version() == ATTNKIT_VERSION);
}

TEST_CASE("--version names the tool, then libraries") {
  const std::string text = version_text(everything(), {"HDF5 1.10.8"});
  CHECK(text.rfind("attn-try ", 0) == 0);
  CHECK(text.find("\nHDF5 1.10.8\nBoost 1.") != std::string::npos);
}
