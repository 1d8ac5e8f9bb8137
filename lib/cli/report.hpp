#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::cli {

/// What a run has to say: the text for people and the JSON of DESIGN.md §4 for machines, filled by
/// the tool as it goes. Nothing is printed before the run has ended.
class Report {
 public:
  Report();
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void input(const std::string& name, const std::string& address, const Shape& shape, DType type);
  void output(const std::string& name, const std::string& address, const Shape& shape, DType type);

  /// Files that the user did not name and from which an input takes values: `address` is what leads
  /// there, `kind` how ("virtual", "external link", "raw storage"). Kept for the JSON; one line on
  /// stderr, "TOOL: note: ..." (not with -q), names the first few at the end.
  void source(const std::string& address, const std::string& kind,
              const std::vector<std::string>& files);

  /// The tool's own `result` object; non-finite numbers become null when it is printed.
  nlohmann::ordered_json& result();

  /// Replaces or adds to `params`, which holds every option resolved (e.g. a default that came from
  /// the bundle).
  nlohmann::ordered_json& params();

  /// "ok" unless set: "no", "not_converged", "infeasible".
  void status(const std::string& status);

  /// One line, shown at once on stderr as "TOOL: warning: ..." (not with -q) and kept for the JSON;
  /// said before, it is not said again.
  void warn(const std::string& line);

  /// Text for people: report tools print it on stdout (stderr where a bundle goes there).
  void print(const std::string& text);

  /// Lines for programs, on stdout in place of that text and with -q too.
  void print_data(const std::string& text);

  /// Adds to the time spent in the mathematics alone.
  void add_compute_seconds(double seconds);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn::cli
