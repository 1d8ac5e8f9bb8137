#include <doctest/doctest.h>

#include <stdexcept>

#include "cli/help.hpp"

using namespace attn::cli;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Declaration small(Role role = Role::transform) {
  return Declaration("attn-try", "Tries a man page", role);
}

}  // namespace

TEST_CASE("roff prints escaped text literally") {
  CHECK(roff_escaped("") == "");
  CHECK(roff_escaped("plain words, λ ≥ 1") == "plain words, λ ≥ 1");
  CHECK(roff_escaped("--scale -1") == "\\-\\-scale \\-1");
  CHECK(roff_escaped("a \\ b") == "a \\e b");
  CHECK(roff_escaped("\"q'Wk\" `x` 2^d ~") == "\\(dqq\\(aqWk\\(dq \\(gax\\(ga 2\\(had \\(ti");
  CHECK(roff_escaped(".h5") == "\\&.h5");
  CHECK(roff_escaped("'/text'") == "\\&\\(aq/text\\(aq");
  CHECK(roff_escaped("a.h5\n.h5\nb") == "a.h5\n\\&.h5\nb");
}

TEST_CASE("a man page has the sections that its declaration fills") {
  const std::string bare = man_page(small());
  CHECK(has(bare, ".SH NAME\nattn\\-try \\- tries a man page\n"));
  CHECK(has(bare, ".SH OPTIONS\n"));
  for (const char* absent : {"VERBS", "DATASETS", "RESULTS", "EXAMPLES", "REFERENCES"}) {
    CHECK_FALSE(has(bare, absent));
  }
  const std::string full = man_page(small()
                                        .verbs("VERB", {{"step", "Takes a step."}})
                                        .formula("x_i = -x_j")
                                        .dataset("q", "(..., Lq, d)", "queries")
                                        .result("out", "", "the output")
                                        .report_member("status", "ok")
                                        .reference("A. Author: A title. 2020.")
                                        .example("attn-try step q.h5 \\\n  -o o.h5", "one step"));
  CHECK(has(full, ".SH \"VERBS\"\n.TP\n\\fBstep\\fR\nTakes a step.\n"));
  CHECK(has(full, ".EX\nx_i = \\-x_j\n.EE\n"));
  CHECK(has(full, ".SH DATASETS\n.TP\n\\fBq\\fR (..., Lq, d)\nqueries\n"));
  CHECK(has(full, ".SH RESULTS\n.TP\n\\fBout\\fR\nthe output\n"));
  CHECK(has(full, "JSON report\"\n.TP\n\\fBstatus\\fR\nok\n"));
  CHECK(has(full, ".PP\nOne step:\n.PP\n.RS 4\n.EX\nattn\\-try step q.h5 \\e\n  \\-o o.h5\n.EE\n"));
  CHECK(has(full, ".SH REFERENCES\n.PP\nA. Author: A title. 2020.\n"));
}

TEST_CASE("a man page shows how options take their values") {
  const std::string page = man_page(small()
                                        .optional_choice("causal", {"top-left"}, "A mask")
                                        .number("hybrid", "U", "A share", {0, 1}));
  CHECK(has(page, ".TP\n\\fB\\-\\-causal\\fR[=\\fIWORD\\fR]\nA mask. One of top\\-left.\n"));
  CHECK(has(page, ".TP\n\\fB\\-\\-hybrid\\fR \\fIU\\fR\nA share. A number in [0, 1].\n"));
  CHECK(has(page, ".TP\n\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIFILE\\fR\n"));
}

TEST_CASE("a verb that may be absent, in the man page and the completion scripts") {
  const Declaration declaration =
      small()
          .verbs("VERB", {{"", "Makes."}, {"check", "Checks.", Role::inspect}})
          .flag("fast", "Fast")
          .only_with({""});
  const std::string page = man_page(declaration);
  CHECK(has(page, "\n\\fI[VERB]\\fR\n"));
  CHECK(has(page, ".SH \"VERBS\"\n.TP\n\\fB(no VERB)\\fR\nMakes.\n.TP\n\\fBcheck\\fR\n"));
  // Before the verb: the verb or a file.
  const std::string bash = completion_script(declaration, "bash");
  CHECK(has(bash, "if [[ -z $verb ]]; then candidates=verb_or_file words='check'; else"));
  CHECK(has(bash, "case $each in check) verb=$each ;; esac"));
  CHECK(has(completion_script(declaration, "zsh"), "if [[ -z $verb ]]; then specs+=('--fast"));
  const std::string fish = completion_script(declaration, "fish");
  CHECK(has(fish, "complete -c attn-try -n 'not __fish_seen_subcommand_from check' -a check -d"));
  CHECK(has(fish, "complete -c attn-try -n 'not __fish_seen_subcommand_from check' -l fast -d"));
}

TEST_CASE("completion scripts name the tool and its values") {
  const Declaration declaration =
      small(Role::generator).choice("scheme", {"unas", "dnas"}, "It's [a] scheme: one. Or two");
  const std::string bash = completion_script(declaration, "bash");
  CHECK(has(bash, "--scheme | --scheme=) candidates=words words='unas dnas' ;;"));
  CHECK(has(bash, "\ncomplete -F _attn_try attn-try\n"));
  const std::string zsh = completion_script(declaration, "zsh");
  CHECK(zsh.rfind("#compdef attn-try\n", 0) == 0);
  CHECK(has(zsh, "'--scheme=[It'\\''s \\[a\\] scheme\\: one]:WORD:(unas dnas)'"));
  const std::string fish = completion_script(declaration, "fish");
  CHECK(
      has(fish, "complete -c attn-try -l scheme -x -a 'unas dnas' -d 'It\\'s [a] scheme: one'\n"));
  CHECK(has(fish, "complete -c attn-try -f\n"));
  CHECK_FALSE(has(completion_script(small(), "fish"), "complete -c attn-try -f\n"));
  CHECK_THROWS_AS(completion_script(declaration, "tcsh"), std::logic_error);
}
