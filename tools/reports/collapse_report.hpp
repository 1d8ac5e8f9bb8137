#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "common/shards/report_notes.hpp"
#include "common/tables/totals.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The common data of the sets of points of a run of mode-collapse-sim.
struct PointHeading {
  std::string text;  ///< PointSets::text
  Index sets = 0;    ///< the number of sets with figures
  Index points = 0;
  Index dimension = 0;
  Index steps = 0;
};

/// The figures of a scheme's runs: a number for each set and step.
struct SchemeRuns {
  std::vector<double> distance;  ///< (sets, T + 1): the least distance of two centres
  std::vector<double> spread;    ///< the largest over clusters
  std::vector<double> modes;
  std::vector<double> log_likelihood;  ///< NaN if the scheme or the energy has none
  Totals totals;                       ///< of all steps
};

/// The figures of mode-collapse-sim simulate, for all sets or for some of them.
struct SimulationFigures {
  PointHeading heading;
  Index clusters = 0;
  std::vector<std::int64_t> labels;  ///< of the clusters
  double merged = 0;                 ///< centres nearer to each other than this count as merged
  std::vector<std::string> names;    ///< of the schemes
  std::vector<SchemeRuns> runs;      ///< by scheme
};

/// A log-likelihood may fall by this fraction of the larger of 1 and its magnitude, by rounding.
constexpr double most_fall = 1e-10;

/// The figures of the runs of em.
struct EmRuns {
  std::vector<double> log_likelihood;  ///< (sets, T + 1)
  std::vector<double> variance;        ///< (sets, T + 1): of all components, or the least
  /// (sets, T + 1); empty unless each component has its own variance.
  std::vector<double> largest_variance;
  Index floored = 0;      ///< sets with a variance that reached its lower bound
  Index empty = 0;        ///< the largest number of components without a share, over all steps
  double dnas_error = 0;  ///< of the first step against dnas, in units of its bound

  /// Adds the figures that are not by set and step. An error of NaN stays.
  void add(Index more_floored, Index more_empty, double more_dnas_error);
};

/// The figures of mode-collapse-sim em, for all sets or for some of them.
struct EmFigures {
  PointHeading heading;
  Index components = 0;
  std::string priors;
  bool proven = true;  ///< with these priors the likelihood never falls
  EmRuns runs;
};

/// Fills in the report; returns the summary line and the exit status.
cli::Outcome report_simulation(const SimulationFigures& figures, cli::Report& report);
cli::Outcome report_em(const EmFigures& figures, cli::Report& report);

/// A shard's notes of these figures, and the inverse for notes of `sets` sets, which throws
/// Error(input) naming notes that do not fit.
ReportNotes notes_of(const SimulationFigures& figures);
ReportNotes notes_of(const EmFigures& figures);
SimulationFigures simulation_of(const ReportNotes& notes, Index sets);
EmFigures em_of(const ReportNotes& notes, Index sets);

/// The verb of the run that kept the notes: "simulate" or "em".
std::string verb_of(const ReportNotes& notes);

/// Puts the sets of `part` into their places in the whole run: the n-th set of `part` is set
/// `sets[n]`. `whole` has figures for the number of sets in its heading.
void place_sets(const SimulationFigures& part, const std::vector<Index>& sets,
                SimulationFigures& whole);
void place_sets(const EmFigures& part, const std::vector<Index>& sets, EmFigures& whole);

/// A copy of `part` with places for `sets` sets.
SimulationFigures whole_of(const SimulationFigures& part, Index sets);
EmFigures whole_of(const EmFigures& part, Index sets);

}  // namespace attn::tools
