#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/attention_input.hpp"
#include "common/heads.hpp"
#include "common/results.hpp"
#include "io/input.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"

namespace attn::tools {

/// What sinkhorn-iter has to do for one section: INPUT, or one group of it.
struct TransportTask {
  /// Looks at everything but the numbers. Throws what resolving the options and AttentionInput
  /// throw, Error(usage) for options that would have no effect, Error(input) for marginals of
  /// another shape.
  TransportTask(const cli::Arguments& arguments, io::InputBundle section);

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }

  /// What results of earlier runs depend on, and what this run makes its own from.
  RunEffect effect(const cli::Arguments& arguments) const;

  /// Every dataset that is read.
  std::vector<io::InputDataset> datasets() const;

  void report_params(cli::Report& report) const;

  /// The marginals of a problem: the datasets a and b, else the usual ones of what is allowed; a
  /// usual b adds up to what a does, and a usual a to what b does where there is a cost. Throws
  /// Error(input) naming dataset and index of what is no finite number >= 0.
  Marginals marginals(Index problem, const AllowedCounts& allowed) const;

  /// "a.h5:/a", or what is used in its place, for messages.
  std::string row_address() const;
  std::string col_address() const;

  /// The type that marginals were rounded to.
  double marginal_epsilon() const;

  io::InputBundle bundle;
  ScoreOptions scores;
  bool of_cost = false;  ///< results are in units of the cost: of epsilon times the scores
  AttentionInput input;
  SinkhornOptions solver;
  std::set<std::string> emitted;
  std::string settings_left;  ///< of an earlier run, which this one does not take over
  std::optional<Operand> a, b;
  bool f64;
};

/// Memory that it takes.
HeadNeeds transport_needs(const TransportTask& task, std::size_t element_size);

/// What --dry-run says.
void report_transport_cost(const cli::Arguments& arguments, const TransportTask& task,
                           cli::Report& report);

}  // namespace attn::tools
