// claim-check: checks numerical claims that are stored in files.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "claim_check/claim_falsification.hpp"
#include "claim_check/claim_report.hpp"
#include "claim_check/claim_selection.hpp"
#include "claim_check/falsification_report.hpp"
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
      "perturb = [\"a\", \"b\"] names a change under which the claim must fail (a refuted one: "
      "must hold): b takes the place of a wherever the command has it. --falsify runs these, and "
      "moves the expectations of =, within and slope. unperturbed says why a claim has none; kind "
      "= \"printed\" marks one that only compares printed constants.");
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
  d.flag("falsify",
         "Checks that claims can fail: runs each perturbed command, too, and moves expectations.");
  d.flag("require-perturb",
         "Refuses files in which a computed claim names no perturb, and no reason for that.");
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
          "if it could not run")
      .report_member("falsify",
                     "with --falsify: computed, computed_can_fail, excused, printed, "
                     "printed_can_fail, share (of computed claims that can fail), list (id, kind, "
                     "can_fail, reason, perturbed: the number measured then)");
  d.reference(doubly_normalized_reference)
      .reference(explain_away_reference)
      .reference(mechanisms_reference)
      .reference(scale_invariant_reference)
      .reference(fenchel_reference);
  d.example("claim-check data/claims/*.toml", "Check that all claims still hold.");
  d.example("claim-check --falsify data/claims/*.toml", "Check that all of them can fail.");
  d.example("claim-check --select gradients --junit claims.xml paper.toml",
            "Check the claims of one tag in CI.");
  d.exit_status(0, "every claim came out as expected");
  d.exit_status(1, "some claim did not, could not be run, or (--falsify) cannot fail");
  d.exit_status(4, "");
  d.exit_status(6, "");
  return d;
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

// Perturbed claims stand behind the others, in the order of those that have a perturbation.
std::vector<Claim> with_perturbed(const cli::Arguments& arguments,
                                  const std::vector<Claim>& claims) {
  std::vector<Claim> all = claims;
  if (!arguments.flag("falsify")) return all;
  for (const Claim& claim : claims) {
    if (claim.perturbation) all.push_back(perturbed(claim));
  }
  return all;
}

// Removes the results of perturbed claims from `results`. Without any, the verdicts are unused.
std::vector<Falsification> take_falsifications(const std::vector<Claim>& claims,
                                               std::vector<ClaimResult>& results) {
  std::vector<Falsification> found;
  std::size_t next = claims.size();
  for (std::size_t n = 0; n < claims.size(); ++n) {
    std::optional<ClaimResult> other;
    if (claims[n].perturbation && next < results.size()) other = std::move(results[next++]);
    found.push_back(falsification_of(claims[n], results[n], std::move(other)));
  }
  results.resize(claims.size());
  return found;
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
  if (arguments.flag("require-perturb")) require_perturbations(claims);
  std::vector<ClaimResult> results = check(arguments, with_perturbed(arguments, claims), report);
  const std::vector<Falsification> falsifications = take_falsifications(claims, results);
  const ClaimResults all{claims, results};
  for (std::vector<Cell>& row : claim_rows(all)) table.add(std::move(row));
  table.print(report);
  report.result() = claims_json(all);
  bool passed = all.counts().as_expected == static_cast<Index>(claims.size());
  if (arguments.flag("falsify")) {
    report.result()["falsify"] = falsification_json(all, falsifications);
    passed = passed && counts(claims, falsifications).complete();
  }
  if (!table.in_place_of_text()) {
    report.print(arguments.flag("falsify") ? falsification_text(all, falsifications)
                                           : claims_table(all));
  }
  if (arguments.given("junit")) {
    cli::write_text(claims_junit(all), arguments.text("junit"), "junit");
  }
  if (arguments.given("markdown")) {
    cli::write_text(claims_markdown(all), arguments.text("markdown"), "markdown");
  }
  return {passed ? 0 : 1, "", table.commit()};
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run);
}
