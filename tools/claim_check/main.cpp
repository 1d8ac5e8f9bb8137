// claim-check: checks numerical claims that are stored in files.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "claim_check/claim_report.hpp"
#include "claim_check/scratch_folder.hpp"
#include "cli/progress.hpp"
#include "cli/text_file.hpp"
#include "common/bundles.hpp"
#include "common/dataset_words.hpp"
#include "common/table_options.hpp"
#include "io/output.hpp"
#include "kernel/parallel.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("claim-check", "Checks numerical claims that are stored in TOML files",
                     cli::Role::compare);
  d.words("FILE...", "TOML files of claims.", 1, -1);
  d.about(
      "A file of claims has one table [[claim]] per claim, with: id; source (document and place); "
      "statement, one sentence; tags; command, run by bash (a failure anywhere in a pipe counts) "
      "in a fresh directory, with these tools first on PATH and the directory of the file as "
      "$CLAIMS; time-limit (60 seconds); status, the allowed exit statuses (0); alone = true, if "
      "nothing else may run at the same time.");
  d.about(
      "value is the address of the measured number: report.json:/result/gap (a JSON pointer, also "
      "to arrays of numbers), out.h5:/col_sum[0] (a dataset, sliced), or status. The relation must "
      "hold for each of several numbers, unless reduce (min, max, max-abs, mean, sum, count, "
      "first, last) makes one of them. relation is =, within, <, <=, >, >=, increasing, "
      "decreasing, or slope (the slope of log value over the log of the numbers at over). expected "
      "is a number, a list, or an address. tolerance and relative-tolerance (relative to expected) "
      "need why, a sentence. expect = \"refuted\" marks a claim that is wrong as printed; right is "
      "then the id of the corrected claim.");
  d.about(
      "A claim holds, is refuted, or could not be run (error). The margin in the report is the "
      "distance of the measured number from the edge of its tolerance, negative if it lies "
      "outside.");
  d.section("Claims");
  d.text("select", "LIST", "Checks only claims with these ids or tags, separated by commas.");
  d.text("skip", "LIST", "Leaves out claims with these ids or tags, separated by commas.");
  d.integer("jobs", "N", "Number of claims checked at the same time; they share --threads.", 1,
            1024)
      .default_words("the number of threads");
  d.letter('j');
  d.text("junit", "FILE", "Writes the verdicts as JUnit XML.");
  d.text("markdown", "FILE", "Writes the table as Markdown.");
  d.text("keep", "DIR", "Runs each command in a new directory DIR/id and keeps it.");
  d.flag("list", "Lists the claims without running them.");
  declare_table_options(d, "claim", {.writes_bundle = false});
  d.column("file, id, source", "where the claim is stored, its name, and the document")
      .column("expected, measured, margin", "as in the report")
      .column("verdict", "holds, refuted or error")
      .column("as_expected", "whether the verdict is the expected one")
      .column("seconds", "the time that the command took");
  d.report_member("claims, as_expected, otherwise, errors", "the numbers of claims")
      .report_member(
          "list",
          "an array of id, source, statement, tags, relation, tolerance, "
          "relative_tolerance, why, expect, verdict (holds, refuted or error), as_expected, "
          "measured, expected, margin and seconds of each claim; right, if it is refuted; error, "
          "if it "
          "could not run");
  d.reference(doubly_normalized_reference)
      .reference(explain_away_reference)
      .reference(mechanisms_reference)
      .reference(scale_invariant_reference)
      .reference(fenchel_reference);
  d.example("claim-check data/claims/*.toml", "Check that all claims still hold.");
  d.example("claim-check --select gradients --junit claims.xml paper.toml",
            "Check the claims of one tag in CI.");
  d.exit_status(0, "every claim came out as expected");
  d.exit_status(1, "some claim did not, or could not be run");
  d.exit_status(4, "");
  d.exit_status(6, "");
  return d;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text + ",") {
    if (c != ',') {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, ""));
    }
  }
  return parts;
}

bool is_called(const Claim& claim, const std::string& word) {
  return claim.id == word || std::count(claim.tags.begin(), claim.tags.end(), word) > 0;
}

bool is_any_of(const Claim& claim, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return is_called(claim, word); });
}

// The ids and tags in a list; each must belong to some claim.
std::vector<std::string> words_of(const cli::Arguments& arguments, const std::string& option,
                                  const std::vector<Claim>& claims) {
  std::vector<std::string> words = split_list(arguments.text(option));
  if (arguments.given(option) && words.empty()) {
    throw Error(Failure::usage, "--" + option + " names no claim");
  }
  for (const std::string& word : words) {
    const bool known = std::any_of(claims.begin(), claims.end(),
                                   [&](const Claim& claim) { return is_called(claim, word); });
    if (known) continue;
    throw Error(Failure::usage, "--" + option + ": no claim has the id or tag " + word,
                "--list shows the claims");
  }
  return words;
}

std::vector<Claim> selected(const cli::Arguments& arguments, const std::vector<Claim>& claims) {
  const std::vector<std::string> wanted = words_of(arguments, "select", claims);
  const std::vector<std::string> unwanted = words_of(arguments, "skip", claims);
  std::vector<Claim> kept;
  for (const Claim& claim : claims) {
    if (!wanted.empty() && !is_any_of(claim, wanted)) continue;
    if (!is_any_of(claim, unwanted)) kept.push_back(claim);
  }
  if (kept.empty()) throw Error(Failure::usage, "--skip leaves no claim");
  return kept;
}

std::string listing(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims) {
    text +=
        fmt::format("{}  {}  [{}]{}\n    {}\n", claim.id, claim.source, fmt::join(claim.tags, " "),
                    claim.refuted ? "  refuted" : "", claim.statement);
  }
  return text;
}

// The other tools are in the folder of this one.
std::string tool_folder() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw Error(Failure::input, "/proc/self/exe cannot be read: " + failed.message());
  return self.parent_path().string();
}

std::vector<ClaimResult> check(const cli::Arguments& arguments, const std::vector<Claim>& claims,
                               cli::Report& report) {
  // If inherited as ignored, it would keep this process from waiting for its children.
  std::signal(SIGCHLD, SIG_DFL);
  ClaimPlace place;
  place.keeps = arguments.given("keep");
  std::optional<ScratchFolder> scratch;
  if (!place.keeps) scratch.emplace(arguments.tmpdir);
  place.folder = place.keeps ? arguments.text("keep") : scratch->path();
  place.tools = tool_folder();
  const Index most = static_cast<Index>(claims.size());
  const Index jobs =
      std::clamp<Index>(arguments.integer("jobs").value_or(arguments.threads), 1, most);
  std::vector<ClaimResult> results(claims.size());
  cli::Progress progress(arguments, "checking", static_cast<double>(most), "claims");
  const auto run = [&](std::size_t n) {
    results[n] = run_claim(claims[n], place);
    progress.advance(1);
  };
  std::vector<std::size_t> together;
  for (std::size_t n = 0; n < claims.size(); ++n) {
    if (!claims[n].alone) together.push_back(n);
  }
  place.threads = static_cast<int>(std::max<Index>(1, arguments.threads / jobs));
  kernel::parallel_for(static_cast<Index>(together.size()), static_cast<int>(jobs),
                       [&](Index item, int) { run(together[static_cast<std::size_t>(item)]); });
  place.threads = arguments.threads;
  for (std::size_t n = 0; n < claims.size(); ++n) {
    if (claims[n].alone) run(n);
  }
  if (scratch && !scratch->remove()) report.warn(scratch->path() + " cannot be removed");
  return results;
}

// No output may replace an input or another output of this run.
void require_outputs(const cli::Arguments& arguments) {
  std::vector<std::string> taken = arguments.words();
  if (arguments.json && !arguments.json->empty()) taken.push_back(*arguments.json);
  for (const char* option : {"junit", "markdown"}) {
    if (!arguments.given(option)) continue;
    const std::string file = arguments.text(option);
    for (const std::string& other : taken) {
      std::error_code failed;
      if (file == other || std::filesystem::equivalent(file, other, failed)) {
        throw Error(Failure::usage, fmt::format("--{} {} is {}, too", option, file, other));
      }
    }
    cli::check_text_destination(file, option);
    taken.push_back(file);
  }
  if (arguments.given("keep") && arguments.text("keep").empty()) {
    throw Error(Failure::usage, "--keep is empty, expected a directory");
  }
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  require_outputs(arguments);
  TableOutput table(arguments, claim_columns(), {.writes_bundle = false});
  const std::vector<Claim> claims = selected(arguments, read_claims(arguments.words()));
  if (arguments.flag("list")) {
    report.print(listing(claims));
    return {};
  }
  const std::vector<ClaimResult> results = check(arguments, claims, report);
  const ClaimResults all{claims, results};
  for (std::vector<Cell>& row : claim_rows(all)) table.add(std::move(row));
  table.print(report);
  if (!table.in_place_of_text()) report.print(claims_table(all));
  report.result() = claims_json(all);
  if (arguments.given("junit")) {
    cli::write_text(claims_junit(all), arguments.text("junit"), "junit");
  }
  if (arguments.given("markdown")) {
    cli::write_text(claims_markdown(all), arguments.text("markdown"), "markdown");
  }
  return {all.counts().as_expected == static_cast<Index>(claims.size()) ? 0 : 1, "",
          table.commit()};
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run);
}
