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

  void input(const std::string& name, const std::string& address, const Shape& shape, DType type);
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
  /// the JSON. A repeated warning is ignored.
  void warn(const std::string& line);

  /// The same for one problem of a section: a part of the run that has it says the same. Warnings
  /// of problems follow the other ones of their section, in the order of the problems.
  void warn_of_problem(Index problem, const std::string& line);

  /// The same for the largest `figure` over the problems of a section, which `line` shows: a part
  /// of the run has a smaller one. Only the line with the largest figure of a `kind` is one of the
  /// whole run. These follow those of problems.
  void warn_of_largest(const std::string& kind, double figure, const std::string& line);

  /// The same for what follows from the whole of a run, of which a part would say something else:
  /// it is not among own_warnings().
  void warn_of_whole(const std::string& line);

  /// What was warned of, but for warn_of_whole, in order.
  struct OwnWarning {
    std::string line;
    std::optional<Index> problem = {};  ///< of warn_of_problem
    std::string kind = {};              ///< of warn_of_largest; else ""
    double figure = 0;

    bool operator==(const OwnWarning&) const = default;
  };
  const std::vector<OwnWarning>& own_warnings() const;

  /// Prints one line "TOOL: note: ..." on standard error at once (not with -q).
  void note(const std::string& line);

  /// Adds text for people: lines, of which other control characters become '?'. A name that
  /// comes from a file or an option goes through one_line or column_text.hpp first, so that it
  /// cannot begin a line. It goes to standard output, or to standard error if a bundle goes to
  /// standard output.
  void print(const std::string& text);

  /// Adds a line for people, whose line breaks become blanks.
  void print_line(const std::string& line);

  /// Adds lines for programs, printed on standard output in place of that text, even with -q.
  void print_data(const std::string& text);

  /// Drops all text and lines that were added so far.
  void drop_text();

  /// Keeps a failure from being written to the file that --json names, as that is another file of
  /// the run, too.
  void spare_json_file();

  /// Of each rank that took part in the run, what it sent to others, and the memory that it took.
  struct RankCosts {
    std::int64_t sent_bytes = 0;
    std::int64_t peak_rss_bytes = 0;
  };
  void ran_on_ranks(const std::vector<RankCosts>& ranks);

  /// Adds to the time spent in computation, without reading and writing.
  void add_compute_seconds(double seconds);

  /// Runs `body` and adds its time to that.
  void compute(const std::function<void()>& body);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn::cli
