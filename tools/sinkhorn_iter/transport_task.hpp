#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attnkit/transport.hpp"
#include "cli/command.hpp"
#include "common/heads/attention_input.hpp"
#include "common/heads/heads.hpp"
#include "common/results/results.hpp"
#include "io/input.hpp"
#include "sinkhorn/marginals.hpp"
#include "sinkhorn_iter/histograms.hpp"
#include "sinkhorn_iter/upstream.hpp"

namespace attn::tools {

/// The verb of exact transport.
constexpr const char* exact_verb = "exact";
/// The verb of Sinkhorn's divergence.
constexpr const char* divergence_verb = "divergence";
/// The verb of barycentres.
constexpr const char* barycentre_verb = "barycentre";

/// The word of --solver: auto, simplex or annealing.
const char* method_word(ExactMethod method);

/// The task of sinkhorn-iter for one section: INPUT, or one group of it.
struct TransportTask {
  /// Checks everything but the numbers. Throws the errors of resolving the options and of
  /// AttentionInput, Error(usage) for options that would have no effect, Error(input) for marginals
  /// of another shape.
  TransportTask(const cli::Arguments& arguments, io::InputBundle section);

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }

  /// Whether `bundle` has datasets from which the task can be computed.
  static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle);

  /// The effect of the run on results of earlier runs, and the inputs of its own results.
  RunEffect effect(const cli::Arguments& arguments) const;

  /// Problems that share a dataset whose gradient is requested belong together.
  ProblemUnits units() const;

  /// Every dataset that is read.
  std::vector<ArraySource> datasets() const;

  void report_params(cli::Report& report) const;

  /// The marginals of a problem, without histograms: the datasets a and b, else the defaults for
  /// the allowed pairs, and the penalties. A default b has the sum of a, and for a cost a default a
  /// has the sum of b. Throws Error(input) naming dataset and index of an element that is not a
  /// finite number >= 0.
  Marginals marginals(Index problem, const AllowedCounts& allowed) const;

  /// The options of one problem, which may keep exponentials in `kept_bytes`.
  TransportOptions transport_options(std::int64_t kept_bytes) const;

  /// "a.h5:/a", or a description of the default, for messages.
  std::string row_address() const;
  std::string col_address() const;

  /// The machine epsilon of the least precise type among the datasets of marginals.
  double marginal_epsilon() const;

  /// Removes results that the verb does not have: default results silently; others throw
  /// Error(usage).
  void leave_out(const std::vector<std::string>& names, const cli::Arguments& arguments);

  io::InputBundle bundle;
  ScoreOptions scores;
  bool of_cost = false;  ///< results are in units of the cost, which is epsilon times the scores
  double unit() const { return of_cost ? scores.epsilon : 1; }  ///< of the cost, in scores
  bool has_points() const { return scores.source == ScoreOptions::Source::vectors; }
  AttentionInput input;
  SinkhornOptions solver;
  std::optional<MarginalPenalties> penalties;  ///< of --unbalanced, in units of the cost
  std::optional<ExactOptions> exact;           ///< of the verb exact; its method is not automatic
  bool diverges = false;                       ///< the verb divergence
  std::optional<HistogramInput> histograms;    ///< of the verb barycentre
  std::set<std::string> emitted;
  std::string settings_left;  ///< settings of an earlier run that this run does not use
  std::optional<Operand> a, b;
  std::optional<Operand> start;  ///< g (…, Lk) of --start stored
  SolutionGradient gradient = SolutionGradient::implicit;
  std::optional<UpstreamInput> upstream;  ///< if --emit requests gradients through the solution
  bool f64;

  /// Potentials of a problem: one line of queries and one of keys, or one for each histogram.
  Index lines() const { return histograms ? histograms->count : 1; }

  /// Whether the potentials make the plan in the same way as potentials of the scheme sinkhorn.
  bool is_of_scheme() const { return !exact && !histograms; }

  bool uses_simplex() const { return exact && exact->method == ExactMethod::simplex; }

 private:
  void choose_method(const cli::Arguments& arguments);
};

/// The memory that the computation needs on each of `ranks` ranks.
HeadNeeds transport_needs(const TransportTask& task, std::size_t element_size, Index ranks);

/// Reports the cost for --dry-run.
void report_transport_cost(const cli::Arguments& arguments, const TransportTask& task,
                           cli::Report& report);

}  // namespace attn::tools
