#include "claim_check/claim_options.hpp"

#include "common/options/dataset_words.hpp"
#include "common/tables/table_options.hpp"

namespace attn::tools {

cli::Declaration claim_options() {
  cli::Declaration d("claim-check", "Checks numerical claims that are stored in TOML files",
                     cli::Role::compare);
  d.words("FILE...", "TOML files of claims; for diff, two records; for history, a folder of them.",
          1, -1);
  d.verbs("VERB", {{"", "Checks claims."},
                   {diff_verb,
                    "Shows which claims differ between two records of --record, by how much and by "
                    "what share of their tolerance. In a folder, takes the last record."},
                   {history_verb, "Shows the headroom of each claim by record."}});
  d.about(
      "A file of claims has one table [[claim]] per claim, with: id; source (document and place); "
      "statement, one sentence; tags; command, run by bash (a failure anywhere in a pipe counts) "
      "in a fresh directory, with these tools first on PATH and the directory of the file as "
      "$CLAIMS; time-limit (60 seconds); status, the allowed exit statuses (0); alone = true, if "
      "nothing else may run at the same time.");
  d.about(
      "A file of claims is a program: run only one that you would run as a script. --dry-run shows "
      "what it would run.");
  d.about(
      "value is the address of the measured number: report.json:/result/gap (a JSON pointer, also "
      "to arrays of numbers; * stands for each element), out.h5:/col_sum[0] (a dataset, sliced; "
      "patterns such as layer* may stand for groups), or status. With line (from the end if "
      "negative), pattern (a regular expression: its first group, or all of it) or column (of a "
      "table; pattern and line then choose rows), it is a text file, or stdout. The relation must "
      "hold for each of several numbers, unless quantifier = \"any\", or reduce (min, max, "
      "max-abs, "
      "mean, sum, count, first, last) makes one of them. relation is =, within, <, <=, >, >=, "
      "increasing, decreasing, slope (the slope of log value over the log of the numbers at over), "
      "or p<. expected is a number, a list, or an address. tolerance and relative-tolerance "
      "(relative to expected) need why, a sentence. expect = \"refuted\" marks a statement that "
      "is wrong; right is then the id of the claim that is right.");
  d.about(
      "For p<, value are the numbers of runs, expected is the level, test is welch, one-sample, "
      "paired, sign or proportion (of 1 and 0), against is the other side, and alternative is "
      "less, "
      "greater or two-sided. The report states the test, n and a 95% interval.");
  d.about(
      "perturb = [\"a\", \"b\"] names a change under which the claim must fail (a refuted one: "
      "must hold): b takes the place of a wherever the command has it. --falsify runs these, and "
      "moves the expectations of =, within and slope. unperturbed says why a claim has none. "
      "kind is tool for a claim whose command runs a tool (the default), statistics for a "
      "statistic or a sum of printed numbers, and printed for one that only compares printed "
      "constants and needs no perturb; the report counts the claims of each kind.");
  d.about(
      "A claim holds, is refuted, or could not be run (error). The margin in the report is the "
      "distance of the measured number from the edge of its tolerance, negative if it lies "
      "outside. The headroom is the margin over the tolerance, with the other sign for a refuted "
      "claim: the nearer to 0, the sooner the claim fails. For an inequality without tolerance, "
      "the headroom is in units of scale, a key of the claim, else of the expected number. Below "
      "0.2 the tool warns.");
  d.for_verbs({""});
  d.section("Claims");
  d.text("select", "LIST", "Checks only claims with these ids or tags, separated by commas.");
  d.text("skip", "LIST", "Leaves out claims with these ids or tags, separated by commas.");
  d.integer("jobs", "N", "Number of claims checked at the same time; they share --threads.", 1,
            1024)
      .default_words("the number of threads");
  d.letter('j');
  d.text("junit", "FILE", "Writes the verdicts as JUnit XML.");
  d.text("markdown", "FILE", "Writes the table as Markdown.");
  d.text("sarif", "FILE", "Writes failures and low headrooms as SARIF, for code hosts.");
  d.choice("format", {"text", "latex"},
           "latex prints a \\newcommand for each measured number, in place of the report.", "text");
  d.text("keep", "DIR", "Runs each command in a new directory DIR/id and keeps it.");
  d.flag("falsify",
         "Checks that claims can fail: runs each perturbed command, too, and moves expectations.");
  d.flag(
      "require-perturb",
      "Refuses files in which a claim has neither perturb nor unperturbed, unless it is printed.");
  d.flag("list", "Lists the claims and their commands without running them.");
  d.flag("dry-run",
         "Prints the commands that would run, each with its $CLAIMS, and runs none of them. PATH "
         "begins with the folder of the tools, and each command gets its own new folder.");
  d.section("Records");
  d.text(
      "cache", "DIR",
      "Takes the numbers of claims from DIR if their text, the environment, the umask, the model "
      "of the CPU, and all that their commands looked at are the same, and keeps the others there. "
      "strace tells what a command looks at: files, programs, libraries, names in folders, and "
      "missing files. Changes of these do not make a claim run again: times, except the last "
      "change of a file that is looked at but not opened; inode numbers; the number of links of a "
      "folder; clocks; random numbers; ATTN_NUM_THREADS if only a script reads it; and the "
      "kernel's information on itself, the machine and the process, such as limits, free memory, "
      "/proc, /sys and devices.");
  d.text("record", "DIR", "Writes the numbers into a new file DIR/DATE-COMMIT.jsonl.");
  d.text("commit", "NAME", "The commit in the record.")
      .default_words("the commit of the first FILE's repository, by git");
  d.for_verbs({});
  declare_table_options(d, "claim", {.writes_bundle = false});
  d.column("file, id, source", "where the claim is stored, its name, and the document")
      .column("kind", "tool, statistics or printed")
      .column("expected, measured, margin, headroom", "as in the report")
      .column("verdict", "holds, refuted or error")
      .column("as_expected", "whether the verdict is the expected one")
      .column("seconds", "the time that the command took");
  d.report_member("claims, as_expected, otherwise, errors", "the numbers of claims")
      .report_member("kinds", "tool, statistics and printed: the number of claims of each kind")
      .report_member(
          "list",
          "an array of id, source, kind, statement, tags, relation, tolerance, "
          "relative_tolerance, why, expect, verdict (holds, refuted or error), as_expected, "
          "measured, expected, margin, headroom, seconds and cached of each claim; right, if it is "
          "refuted; error, if it could not run; not_kept, why --cache does not keep it")
      .report_member("falsify",
                     "with --falsify: computed, computed_can_fail, excused, printed, "
                     "printed_can_fail, share (of computed claims that can fail), list (id, kind, "
                     "can_fail, reason, perturbed: the number measured then)");
  d.column(
      "perturbed, can_fail, reason",
      "with --falsify: the number measured when perturbed, whether the claim can fail, and why "
      "not");
  d.column("before, after, moved, of_tolerance",
           "diff: the measured numbers, their difference, and its share of the tolerance")
      .column("headroom_before, headroom_after, verdict_before, verdict_after", "diff")
      .column("date, commit, version, cpu, unit",
              "history: the run, and what the headroom is measured in");
  d.report_member("before, after, differing",
                  "diff: the runs; id, before, after, moved, of_tolerance, verdict_before and "
                  "verdict_after of each claim that differs")
      .report_member("records", "history: commit, version, cpu, date, file and claims of each");
  d.reference(doubly_normalized_reference)
      .reference(explain_away_reference)
      .reference(mechanisms_reference)
      .reference(scale_invariant_reference)
      .reference(fenchel_reference);
  d.example("claim-check data/claims/*.toml", "Check that all claims still hold.");
  d.example("claim-check --falsify data/claims/*.toml", "Check that all of them can fail.");
  d.example("claim-check --select gradients --junit claims.xml paper.toml",
            "Check the claims of one tag in CI.");
  d.example("claim-check --cache ~/.cache/claims --record records data/claims/*.toml",
            "Run what changed, and record the numbers.");
  d.example("claim-check --format latex paper.toml > numbers.tex", "The numbers for a paper.");
  d.example("claim-check diff records/before.jsonl records", "What moved since then.");
  d.exit_status(0, "every claim came out as expected; diff: none turned or left its tolerance");
  d.exit_status(1,
                "some claim did not come out as expected, could not be run, or (--falsify) cannot "
                "fail; diff: some verdict turned, or a number moved by its tolerance or more");
  d.exit_status(4, "");
  d.exit_status(6, "");
  return d;
}

}  // namespace attn::tools
