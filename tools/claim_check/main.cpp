// claim-check: checks numerical claims that are stored in files.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "claim_check/claim_checks.hpp"
#include "claim_check/claim_drift.hpp"
#include "claim_check/claim_exports.hpp"
#include "claim_check/claim_falsification.hpp"
#include "claim_check/claim_options.hpp"
#include "claim_check/claim_record.hpp"
#include "claim_check/claim_report.hpp"
#include "claim_check/claim_selection.hpp"
#include "claim_check/falsification_report.hpp"
#include "claim_check/run_stamp.hpp"
#include "cli/text_file.hpp"
#include "common/process/tool_main.hpp"
#include "common/tables/table_options.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

// Below it a claim is about to fail.
constexpr double least_headroom = 0.2;

// Perturbed claims follow the others, in the order of the claims with a perturbation.
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
  for (const char* option : {"junit", "markdown", "sarif"}) {
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
  for (const char* option : {"keep", "cache", "record", "commit"}) {
    if (!arguments.given(option) || !arguments.text(option).empty()) continue;
    throw Error(Failure::usage, fmt::format("--{} is empty", option));
  }
  if (arguments.text("format") == "latex" && (arguments.flag("tsv") || arguments.flag("csv"))) {
    throw Error(Failure::usage, "--format latex and a table cannot both be printed");
  }
  if (arguments.given("keep") && arguments.given("cache")) {
    throw Error(Failure::usage, "--keep keeps nothing of claims that --cache knows");
  }
  if (arguments.given("commit") && !arguments.given("record")) {
    throw Error(Failure::usage, "--commit has a meaning with --record only");
  }
}

// Before claims run, so that their numbers are not lost.
void require_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  int reason = failed.value();
  if (!failed && access(folder.c_str(), W_OK | X_OK) != 0) reason = errno;
  if (reason == 0) return;
  throw Error(Failure::output, "--record=" + folder + ": " + system_reason(reason));
}

void write_record(const cli::Arguments& arguments, const ClaimResults& all,
                  const std::string& work_folder) {
  const RunStamp stamp = stamp_of_run(arguments.version, folder_of(all.claims.front()),
                                      arguments.text("commit"), work_folder);
  const std::string start = arguments.text("record") + "/" + record_name(stamp);
  const std::string text = record_text(all, stamp);
  std::string file = start + record_ending;
  // Names of one moment and commit sort in the order in which they were made.
  for (int n = 2; !cli::write_new_text(text, file, "record"); ++n) {
    file = fmt::format("{}~{:03}{}", start, n, record_ending);
  }
}

void warn_of_drift(const ClaimResults& all, cli::Report& report) {
  for (std::size_t n = 0; n < all.claims.size(); ++n) {
    const Claim& claim = all.claims[n];
    const ClaimResult& result = all.results[n];
    if (!is_near_its_bound(claim, result, least_headroom)) continue;
    report.warn(fmt::format("{}: headroom {}: {}", claim.id, digits(*headroom(claim, result), 2),
                            explanation(claim, result)));
  }
}

void write_files(const cli::Arguments& arguments, const ClaimResults& all) {
  if (arguments.given("junit")) {
    cli::write_text(claims_junit(all), arguments.text("junit"), "junit");
  }
  if (arguments.given("markdown")) {
    cli::write_text(claims_markdown(all), arguments.text("markdown"), "markdown");
  }
  if (arguments.given("sarif")) {
    cli::write_text(claims_sarif(all, arguments.version, least_headroom), arguments.text("sarif"),
                    "sarif");
  }
}

cli::Outcome check(const cli::Arguments& arguments, cli::Report& report) {
  require_outputs(arguments);
  const bool falsify = arguments.flag("falsify");
  TableOutput table(arguments,
                    falsify ? columns_of(falsification_figures()) : columns_of(claim_figures()),
                    {.writes_bundle = false});
  const std::vector<Claim> claims = selected(arguments, read_claims(arguments.words()));
  if (arguments.flag("list")) {
    report.result() = commands_json(claims);
    report.print(listing(claims));
    return {};
  }
  if (arguments.flag("require-perturb")) require_perturbations(claims);
  if (arguments.flag("dry-run")) {
    const std::vector<Claim> all = with_perturbed(arguments, claims);
    report.result() = commands_json(all);
    report.print(commands_text(all));
    return {};
  }
  if (arguments.given("record")) require_folder(arguments.text("record"));
  ClaimChecks checks(arguments);
  std::vector<ClaimResult> results = checks.run(with_perturbed(arguments, claims), report);
  const std::vector<Falsification> falsifications = take_falsifications(claims, results);
  const ClaimResults all{claims, results, tool_folder()};
  if (arguments.given("record")) write_record(arguments, all, checks.work_folder());
  if (!checks.remove_temporaries()) report.warn(checks.scratch() + " cannot be removed");
  for (std::size_t n = 0; n < claims.size(); ++n) {
    table.add(falsify
                  ? cells_of(falsification_figures(), {claims[n], results[n], falsifications[n]})
                  : cells_of(claim_figures(), {claims[n], results[n]}));
  }
  table.print(report);
  report.result() = claims_json(all);
  bool passed = all.counts().as_expected == static_cast<Index>(claims.size());
  if (falsify) {
    report.result()["falsify"] = falsification_json(all, falsifications);
    passed = passed && counts(claims, falsifications).complete();
  }
  if (arguments.text("format") == "latex") {
    report.print_data(claims_latex(all));
  } else if (!table.in_place_of_text()) {
    report.print(falsify ? falsification_text(all, falsifications) : claims_table(all));
  }
  warn_of_drift(all, report);
  write_files(arguments, all);
  return {passed ? 0 : 1, "", table.commit()};
}

cli::Outcome show_diff(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.words().size() != 2) {
    throw Error(Failure::usage, "diff takes two records or folders of records");
  }
  TableOutput table(arguments, columns_of(drift_figures()), {.writes_bundle = false});
  const ClaimRecord before = read_record(arguments.words()[0]);
  const ClaimRecord after = read_record(arguments.words()[1]);
  const std::vector<ClaimDrift> all = drifts(before, after);
  for (const ClaimDrift& drift : all) table.add(cells_of(drift_figures(), drift));
  table.print(report);
  if (!table.in_place_of_text()) report.print(drift_text(before, after, all));
  report.result() = drift_json(before, after, all);
  const bool matters =
      std::any_of(all.begin(), all.end(), [](const ClaimDrift& one) { return one.matters(); });
  return {matters ? 1 : 0, "", table.commit()};
}

cli::Outcome show_history(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.words().size() != 1) {
    throw Error(Failure::usage, "history takes one folder of records");
  }
  TableOutput table(arguments, columns_of(history_figures()), {.writes_bundle = false});
  const std::vector<ClaimRecord> records = read_records(arguments.words().front());
  for (const ClaimRecord& record : records) {
    for (const RecordedClaim& claim : record.claims) {
      table.add(cells_of(history_figures(), {record.stamp, claim}));
    }
  }
  table.print(report);
  if (!table.in_place_of_text()) report.print(history_text(records));
  report.result() = history_json(records);
  return {0, "", table.commit()};
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  if (arguments.verb == diff_verb) return show_diff(arguments, report);
  if (arguments.verb == history_verb) return show_history(arguments, report);
  return check(arguments, report);
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::claim_options(), attn::tools::run);
}
