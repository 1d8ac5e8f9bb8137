#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::cli {

/// The report of a run, as text for people and as JSON (schema attnkit/1) for programs. The tool
/// fills it as it works; apart from warnings, nothing is printed before the run ends.
class Report {
 public:
  Report();
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void input(const std::string& name, const std::string& address, const Shape& shape,
             const std::string& type);
  void output(const std::string& name, const std::string& address, const Shape& shape, DType type);

  /// Files that the user did not name but that an input reads: `address` is the input that refers
  /// to them, `kind` is "virtual", "external link" or "raw storage". The JSON lists all of them; a
  /// line "TOOL: note: ..." on standard error (not with -q) names the first few at the end.
  void source(const std::string& address, const std::string& kind,
              const std::vector<std::string>& files);

  /// The object `result` of the JSON; non-finite numbers become null.
  nlohmann::ordered_json& result();

  /// The object `params` of the JSON, which holds every option resolved; the tool may change it,
  /// for example where a default came from the bundle.
  nlohmann::ordered_json& params();

  /// The status in the JSON, "ok" by default: "no", "not_converged" or "infeasible".
  void status(const std::string& status);

  /// Prints one line "TOOL: warning: ..." on standard error at once (not with -q) and adds it to
  /// the JSON. A repeated warning is ignored. Of lines that differ only in the address with which
  /// they begin, standard error has the first, and their number at the end.
  void warn(const std::string& line);

  /// Warns of one problem of a section; a part of the run with this problem warns the same.
  /// Warnings of problems follow the others of their section, in the order of the problems.
  void warn_of_problem(Index problem, const std::string& line);

  /// Warns with the largest `figure` over the problems of a section, which `line` shows; a part of
  /// the run may have a smaller figure. The whole run keeps only the line with the largest figure
  /// of a `kind`. These warnings follow those of problems.
  void warn_of_largest(const std::string& kind, double figure, const std::string& line);

  /// Warns of a property of the whole run, which differs for a part of the run; not among
  /// own_warnings().
  void warn_of_whole(const std::string& line);

  /// The warnings in order, except those of warn_of_whole.
  struct OwnWarning {
    std::string line;
    std::optional<Index> problem = {};  ///< for warn_of_problem
    std::string kind = {};              ///< for warn_of_largest; else ""
    double figure = 0;

    bool operator==(const OwnWarning&) const = default;
  };
  const std::vector<OwnWarning>& own_warnings() const;

  /// Prints one line "TOOL: note: ..." on standard error at once (not with -q), as a warning is.
  void note(const std::string& line);

  /// Adds lines of text for people; control characters other than line breaks become '?'. Names
  /// from files or options must go through one_line or column_text.hpp first, so that they cannot
  /// begin a line. The text goes to standard output, or to standard error if a bundle goes to
  /// standard output.
  void print(const std::string& text);

  /// Adds a line for people, whose line breaks become blanks.
  void print_line(const std::string& line);

  /// Adds lines for programs, printed on standard output in place of the text for people, even with
  /// -q.
  void print_data(const std::string& text);

  /// Drops all text and lines that were added so far.
  void drop_text();

  /// Keeps a failure from being written to the file that --json names, which is also another file
  /// of the run.
  void spare_json_file();

  /// For each rank of the run, the bytes that it sent and the memory that it took.
  struct RankCosts {
    std::int64_t sent_bytes = 0;
    std::int64_t peak_rss_bytes = 0;
  };
  void ran_on_ranks(const std::vector<RankCosts>& ranks);

  /// Adds to the time spent in computation, without reading and writing.
  void add_compute_seconds(double seconds);

  /// Runs `body` and adds its time to the time of computation.
  void compute(const std::function<void()>& body);

  /// Keeps warnings and notes from standard error, for a caller that shows them itself.
  void make_quiet();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn::cli
