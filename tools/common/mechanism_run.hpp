#pragma once

#include "cli/progress.hpp"
#include "common/block_plan.hpp"
#include "common/checkpoint.hpp"
#include "common/mechanism_estimate.hpp"
#include "common/mechanism_task.hpp"
#include "io/output.hpp"
#include "mechanisms/mechanism.hpp"

namespace attn::tools {

/// The sequences in memory at a time. `estimate` may be null, here and below. Throws Error(memory)
/// if not even one fits.
template <class T>
BlockPlan plan_mechanism(const cli::Arguments& arguments, const MechanismTask& task,
                         const mechanisms::Mechanism<T>& mechanism,
                         const MechanismEstimate<T>* estimate);

/// Computes a section and writes its results; the report gets the lengths of the axes and, of
/// results that are one number for each sequence, mean, least and largest. Sequences that
/// `checkpoint` holds are taken from there; it may be null.
template <class T>
void run_mechanism(const cli::Arguments& arguments, const MechanismTask& task,
                   const mechanisms::Mechanism<T>& mechanism, MechanismEstimate<T>* estimate,
                   io::OutputBundle output, Checkpoint* checkpoint, cli::Progress& progress,
                   cli::Report& report);

/// --dry-run of a section.
template <class T>
void report_mechanism_cost(const cli::Arguments& arguments, const MechanismTask& task,
                           const mechanisms::Mechanism<T>& mechanism,
                           const MechanismEstimate<T>* estimate, cli::Report& report);

}  // namespace attn::tools
