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
#include "tensor/shape.hpp"

namespace attn::cli {

/// What a tool does with bundles decides which common options it has (DESIGN.md §3).
enum class Role {
  transform,       ///< reads a bundle, writes one to -o (default stdout)
  optional_input,  ///< a transform that can do without: INPUT where named, never stdin by default
  report,          ///< reads a bundle, prints a report; writes a bundle only where -o is given
  generator,       ///< reads nothing, writes a bundle
  inspect,         ///< reads a bundle, prints a report, writes none
  compare,         ///< reads two bundles A and B (its words()), prints a report, writes none
};

/// --allow-external, for tools that open inputs although their role has none.
inline constexpr const char* allow_external_help =
    "Follow virtual datasets, external links and external raw storage to files outside the folder "
    "of the file that names them. Inside it they are followed anyway.";

/// The options of one tool, declared once: parsing, range checks, --help and (later) the man page
/// and completions come from it. Declared in the order in which --help shows them. Names that
/// clash and fallbacks that their own checks refuse are bugs: std::logic_error.
class Declaration {
 public:
  Declaration(std::string tool, std::string summary, Role role);

  // Every `add` returns *this. `name` is the long name without dashes. `help` is one or two
  // sentences; `placeholder` stands for the value in --help. A `range` check failing is exit 2:
  // "attn-compute: error: --hybrid is 1.5, expected a number in [0, 1]".

  Declaration& section(std::string title);  ///< heading in --help
  Declaration& flag(std::string name, std::string help);
  Declaration& text(std::string name, std::string placeholder, std::string help,
                    std::optional<std::string> fallback = {});
  /// One of a fixed list of words; an unknown one is refused with the list.
  Declaration& choice(std::string name, std::vector<std::string> values, std::string help,
                      std::optional<std::string> fallback = {});
  /// A comma-separated list of such words, each at most once; value is kept in the given order.
  Declaration& choices(std::string name, std::vector<std::string> values, std::string help,
                       std::optional<std::string> fallback = {});
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
  /// Points "1.8,0.7;-1,-1": rows separated by ';', all of one dimension.
  Declaration& points(std::string name, std::string placeholder, std::string help);
  /// --name or --name=WORD: an option with an optional value takes it only after '='. Given bare,
  /// its value is the empty string.
  Declaration& optional_choice(std::string name, std::vector<std::string> values, std::string help);
  /// The option declared last, a number or an integer, may be "none": it is given then, and has no
  /// value.
  Declaration& or_none();
  /// The option declared last has a short name, too: -j.
  Declaration& letter(char letter);
  /// --seed, for tools that use randomness.
  Declaration& seeded();

  /// Further positional words before INPUT (tensor-gen normal q=8x16x4 ...): `count_low` to
  /// `count_high` of them (-1: any number, only where the role has no INPUT), shown as
  /// `placeholder`.
  Declaration& words(std::string placeholder, std::string help, int count_low, int count_high);

  /// A tool that does several things: its first positional word says which. A verb may have a
  /// role of its own.
  struct Verb {
    std::string name;
    std::string help;
    std::optional<Role> role = {};
  };
  Declaration& verbs(std::string placeholder, std::vector<Verb> verbs);
  /// The option declared last goes with these verbs only; with others it is refused.
  Declaration& only_with(std::vector<std::string> verbs);

  /// A line of the EXAMPLES at the end of --help.
  Declaration& example(std::string command, std::string says);
  /// A paragraph before the options.
  Declaration& about(std::string paragraph);
  /// What an exit status means for this tool, in place of the general words in --help; an empty
  /// meaning leaves out a status that the tool does not have.
  Declaration& exit_status(int status, std::string meaning);

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// What the user asked for: parsed, checked, and resolved. Asking for an option that was never
/// declared, or for another type than its own, is a bug: std::logic_error.
class Arguments {
 public:
  bool declared(std::string_view name) const;  ///< the tool has such an option
  bool given(std::string_view name) const;     ///< stood on the command line
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;  ///< given or fallback; else empty
  std::vector<std::string> words_of(std::string_view name) const;  ///< a `choices` list
  std::optional<double> number(std::string_view name) const;       ///< given or fallback
  std::vector<double> numbers(std::string_view name) const;
  std::optional<Index> integer(std::string_view name) const;
  std::vector<Index> integers(std::string_view name) const;
  std::vector<std::vector<double>> points(std::string_view name) const;
  std::vector<std::string> words() const;  ///< the positional words

  /// Whether a bundle will go to standard output (not in a dry run).
  bool bundle_to_stdout() const { return output == "-" && !dry_run; }

  std::string tool;
  std::string verb;  ///< empty where the tool has none

  // The common options, resolved.
  std::optional<std::string> input;  ///< INPUT, "-" where it is absent and no -i was given
  std::vector<std::pair<std::string, std::string>> named_inputs;
  std::optional<std::string> output;  ///< -o; for a transform or generator "-" unless given
  bool allow_external = false;
  bool only = false;
  bool force = false;
  int compress = 0;  ///< --compress: deflate's level, 1 to 9; 0: not asked for
  bool quiet = false;
  bool verbose = false;
  bool dry_run = false;
  int threads =
      1;  ///< --threads, ATTN_NUM_THREADS, OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, CPUs allowed
  std::int64_t memory = 0;  ///< bytes
  std::uint64_t seed = 0;
  std::optional<bool> f64;  ///< --precision; absent: the tool decides
  std::string tmpdir;       ///< --tmpdir, TMPDIR, /tmp
  enum class Progress { automatic, always, never } progress = Progress::automatic;
  std::optional<std::string> json;  ///< --json: "" is bare (stdout), else the file

  /// As typed, quoted for a shell, the program under its own name: for `history`.
  std::string command_line;
  std::string version;

  struct Impl;
  std::shared_ptr<Impl> impl;
};

/// What a tool's run gives back; the report itself is in `report`.
struct Outcome {
  int status = 0;            ///< 0, or 1 where the answer is no
  std::string summary = {};  ///< one line for stderr of tools that write bundles (not with -q)
  /// Brings what was written to its place; called once the report and a JSON file are written, so
  /// that a full disk under those leaves nothing behind.
  std::function<void()> commit = {};
  /// What went wrong although there is a report: it is printed, then this as of a run that failed.
  std::optional<Error> failure = {};
};

/// The main of every tool: parses (--help, --version and usage errors are done here), runs, prints
/// errors and hints in the form of DESIGN.md §4, writes the JSON report, gives the exit status.
/// Error(f) exits with f's value; std::bad_alloc with 6; anything else is a bug and exits 70
/// saying so. `libraries` is what --version adds: lines such as "HDF5 1.10.8". After a failure, and
/// after all that there is to say was written, `on_failure` is called: it may remove temporaries,
/// and may end the process itself.
int run_tool(int argc, char** argv, const Declaration& declaration,
             const std::function<Outcome(const Arguments&, Report&)>& run,
             const std::vector<std::string>& libraries,
             const std::function<void()>& on_failure = {});

}  // namespace attn::cli
