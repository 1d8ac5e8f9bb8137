#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "cli/report.hpp"
#include "tensor/host_arrays.hpp"
#include "tensor/shape.hpp"

namespace attn::cli {

/// How a tool uses bundles. The role determines which common options the tool has.
enum class Role {
  transform,       ///< reads a bundle, writes one to -o (default: standard output)
  optional_input,  ///< a transform whose INPUT may be absent; never reads standard input by default
  report,          ///< reads a bundle, prints a report; writes a bundle only if -o is given
  generator,       ///< reads nothing, writes a bundle
  continued,       ///< as generator, but -o names a file, which the same command continues
  inspect,         ///< reads a bundle, prints a report, writes no bundle
  compare,         ///< reads bundles A and B (its words()), prints a report, writes no bundle
};

/// The options of one tool and the files that it reads and writes, declared once: parsing, range
/// checks, --help, the man page and the completions follow from the declaration. Clashing names,
/// and fallbacks that their own checks refuse, are bugs: std::logic_error.
class Declaration {
 public:
  Declaration(std::string tool, std::string summary, Role role);

  // Every method returns *this. `name` is the long name without dashes. `help` is one or two
  // sentences; `placeholder` stands for the value in --help. A value outside its range ends the
  // tool with status 2: "attn-compute: error: --hybrid is 1.5, expected a number in [0, 1]".

  const std::string& tool() const;
  bool has_option(std::string_view name) const;  ///< among the tool's own options

  /// The heading of the options declared from here on. Options of one heading are shown together,
  /// even if another heading comes between their declarations.
  Declaration& section(std::string title);
  Declaration& flag(std::string name, std::string help);
  Declaration& text(std::string name, std::string placeholder, std::string help,
                    std::optional<std::string> fallback = {});
  /// A text that may be given several times; Arguments::words_of has all values in order. Empty
  /// values are refused.
  Declaration& texts(std::string name, std::string placeholder, std::string help);
  /// One of a fixed list of words; unknown words are refused with the list.
  Declaration& choice(std::string name, std::vector<std::string> values, std::string help,
                      std::optional<std::string> fallback = {});
  /// A comma-separated list of such words, each at most once, kept in the order given.
  Declaration& choices(std::string name, std::vector<std::string> values, std::string help,
                       std::optional<std::string> fallback = {});
  /// A word that others use for one of the `values` of the option declared last: it is refused with
  /// a hint at that value.
  Declaration& synonym(const std::string& word, const std::string& value);
  struct Range {
    double low;
    double high;
    bool low_open = false;
    bool high_open = false;

    static constexpr double infinity = std::numeric_limits<double>::infinity();
    static constexpr Range any() { return {-infinity, infinity}; }
    static constexpr Range positive() { return {0, infinity, true}; }
    static constexpr Range non_negative() { return {0, infinity}; }
  };
  /// Finite numbers only: "inf" and "nan" are refused whatever the range.
  Declaration& number(std::string name, std::string placeholder, std::string help, Range range,
                      std::optional<double> fallback = {});
  Declaration& numbers(std::string name, std::string placeholder, std::string help, Range range,
                       const std::vector<double>& fallback = {});  ///< comma-separated
  Declaration& integer(std::string name, std::string placeholder, std::string help, Index low,
                       Index high, std::optional<Index> fallback = {});
  Declaration& integers(std::string name, std::string placeholder, std::string help, Index low,
                        Index high, const std::vector<Index>& fallback = {});  ///< comma-separated
  /// Bytes such as 512M, at least 1; Arguments::integer has their number.
  Declaration& size(std::string name, std::string placeholder, std::string help,
                    std::string fallback);
  /// Points "1.8,0.7;-1,-1": rows separated by ';', all of one dimension.
  Declaration& points(std::string name, std::string placeholder, std::string help);
  /// --name or --name=WORD: an optional value is taken only after '='. The value of a bare --name
  /// is the empty string.
  Declaration& optional_choice(std::string name, std::vector<std::string> values, std::string help);
  /// The option declared last, a number or an integer, accepts "none": it then counts as given and
  /// has no value.
  Declaration& or_none();
  /// Describes the default of the option declared last in words, such as "as recorded in the
  /// bundle", for --help. The tool itself finds it. If the option also has a fallback, the help
  /// names it as the last resort: "default: as recorded in the bundle, else 1".
  Declaration& default_words(std::string words);
  /// Adds a short name such as -j to the option declared last.
  Declaration& letter(char letter);
  /// Adds --seed, for tools that use randomness.
  Declaration& seeded();
  /// Lets --precision be bf16, for tools that make scores of q and k.
  Declaration& bf16();
  /// Adds --allow-external to the common options, for tools that open inputs although their role
  /// has no INPUT.
  Declaration& allow_external();

  /// Adds -i NAME=ADDRESS, for tools that take datasets although their role has no INPUT.
  Declaration& named_inputs(std::string help);

  /// Lets the tool take several INPUTs. It then writes no bundle for more than one.
  Declaration& several_inputs();

  /// Positional words before INPUT (tensor-gen normal q=8x16x4 ...): from `count_low` to
  /// `count_high` of them (-1: any number, for roles without INPUT), shown as `placeholder`.
  Declaration& words(std::string placeholder, std::string help, int count_low, int count_high);

  /// The verbs of a tool; its first positional word selects one. A verb may have its own role. The
  /// verb with an empty name applies if the first word is no verb; an INPUT called like a verb is
  /// then written as ./NAME.
  struct Verb {
    std::string name;
    std::string help;
    std::optional<Role> role = {};
  };
  Declaration& verbs(std::string placeholder, std::vector<Verb> verbs);
  /// Restricts the option declared last to these verbs; other verbs refuse it.
  Declaration& only_with(std::vector<std::string> verbs);
  /// The same for all options declared from here on; with no verbs, every verb accepts them again.
  Declaration& for_verbs(std::vector<std::string> verbs);

  /// A command in the examples of --help and the man page, with a line that explains it.
  Declaration& example(std::string command, std::string explanation);
  /// A paragraph before the options.
  Declaration& about(std::string paragraph);
  /// The meaning of an exit status for this tool, in place of the general one; an empty meaning
  /// omits a status that the tool never returns.
  Declaration& exit_status(int status, std::string meaning);

  /// A separate text that --help=NAME prints. The help should mention it. At most one.
  Declaration& help_topic(std::string name, std::function<std::string()> text);

  // Shown in the man page only.

  /// A line of the formulas that the tool evaluates.
  Declaration& formula(std::string line);
  /// A dataset that the tool reads. `shape` is "(..., Lq, d)", or empty for "any".
  Declaration& dataset(std::string name, std::string shape, std::string meaning);
  /// A dataset that the tool writes.
  Declaration& result(std::string name, std::string shape, std::string meaning);
  /// A member of the object `result` in the JSON report.
  Declaration& report_member(std::string name, std::string meaning);
  /// A column of the tables of --tsv and --csv, or several with one meaning.
  Declaration& column(std::string name, std::string meaning);
  /// A publication: authors, title, place, year.
  Declaration& reference(std::string citation);

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// A command line: parsed, checked and resolved. It is a bug (std::logic_error) to ask for an
/// option that was never declared, or for a type other than its own.
class Arguments {
 public:
  bool declared(std::string_view name) const;  ///< whether the tool has this option, with its verb
  bool given(std::string_view name) const;     ///< whether the command line has this option
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;  ///< given or fallback, else empty
  std::vector<std::string> words_of(std::string_view name) const;  ///< `choices` or `texts`
  /// Given or fallback. For a list of numbers, its only number; more are a bug.
  std::optional<double> number(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;
  std::optional<Index> integer(std::string_view name) const;
  std::vector<Index> integers(std::string_view name) const;
  std::vector<std::vector<double>> points(std::string_view name) const;
  std::vector<std::string> words() const;  ///< the positional words

  /// A copy of these arguments with another value for the option `name`, a number or a list of
  /// numbers, as if it had been given.
  Arguments with(std::string_view name, double value) const;

  /// Whether a bundle will be written to standard output (never in a dry run).
  bool bundle_to_stdout() const { return output == "-" && !dry_run; }

  std::string tool;
  std::string verb;  ///< empty if there is none

  // The common options, resolved.
  std::optional<std::string> input;  ///< INPUT; "-" if it is absent and no -i is given
  std::vector<std::string> inputs;   ///< all INPUTs, of which `input` is the first
  std::vector<std::pair<std::string, std::string>> named_inputs;
  /// -o; "-" by default for a transform or generator with one INPUT
  std::optional<std::string> output;
  std::optional<std::string>
      table_file;  ///< -o of a table; set by the tools, `output` is then absent
  /// Set by the tools for a process if another process writes the same output.
  bool drops_output = false;
  bool allow_external = false;
  bool only = false;
  bool force = false;
  int compress = 0;  ///< --compress: deflate level, 1 to 9; 0 for no compression
  bool quiet = false;
  bool verbose = false;
  bool dry_run = false;
  int threads =
      1;  ///< --threads, ATTN_NUM_THREADS, OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, CPUs allowed
  int ranks = 1;            ///< processes that divide the run; set by the tools
  std::int64_t memory = 0;  ///< --memory in bytes
  std::uint64_t seed = 0;
  std::optional<bool> f64;  ///< --precision; if absent, the tool decides
  bool bf16 = false;        ///< --precision bf16: float32, and products of bfloat16 for scores
  std::string tmpdir;       ///< --tmpdir, TMPDIR, /tmp
  enum class Progress { automatic, always, never } progress = Progress::automatic;
  std::optional<std::string> json;  ///< --json: "" for standard output, else the file

  /// The arrays of a program that runs the tool within its own process, in place of files: those of
  /// `named_inputs`, and results. Null for a command.
  std::shared_ptr<HostArrays> host;

  /// The command line as typed, quoted for a shell, with the tool's own name: for `history`.
  std::string command_line;
  std::string version;

  struct Impl;
  std::shared_ptr<Impl> impl;
};

/// The usual exit status of a run that a signal stopped and that the same command continues
/// (EX_TEMPFAIL of sysexits.h).
inline constexpr int stopped_status = 75;

/// The value that a tool's run returns; the report itself is in `report`.
struct Outcome {
  int status = 0;            ///< 0, or 1 if the answer is no; other values only if `stopped`
  std::string summary = {};  ///< one line for standard error (not with -q)
  /// Moves the output to its final name. It is called after the report and a JSON file are written,
  /// so that a full disk under these leaves no output behind.
  std::function<void()> commit = {};
  /// An error of a run that nevertheless has a report: the report is printed first, then the error.
  std::optional<Error> failure = {};
  /// A signal stopped the run, which the same command continues; the JSON says so.
  bool stopped = false;
};

/// The status and the messages of a run that failed: lines "TOOL: error: ..." and "TOOL: hint:
/// ...".
struct FailedRun {
  int status = 0;
  std::string lines;
};

/// Lines such as "HDF5 1.10.8"; throws if the environment's choice of library is not available.
using Libraries = std::function<std::vector<std::string>()>;

/// The main function of every tool: parses the command line (and answers --help, --version, --man,
/// --completion and usage errors), runs the tool, prints errors and hints, writes the JSON report
/// and returns the exit status. An Error ends with the status of its category, std::bad_alloc with
/// 6; any other exception is a bug and ends with 70. `libraries` is called for --version.
/// `on_failure` is called after a failure, when all messages are written: it may remove
/// temporaries, and may end the process itself. `silent`: prints nothing and writes no JSON report,
/// since another process does; the error is then only passed to `on_failure`.
int run_tool(int argc, char** argv, const Declaration& declaration,
             const std::function<Outcome(const Arguments&, Report&)>& run,
             const Libraries& libraries,
             const std::function<void(const FailedRun&)>& on_failure = {}, bool silent = false);

}  // namespace attn::cli
