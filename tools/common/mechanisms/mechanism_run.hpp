#pragma once

#include "cli/progress.hpp"
#include "common/mechanisms/mechanism_estimate.hpp"
#include "common/mechanisms/mechanism_task.hpp"
#include "common/runs/checkpoint.hpp"
#include "io/output.hpp"
#include "mechanisms/mechanism.hpp"

namespace attn::tools {

/// Computes a section and writes its results; the report gets the lengths of the axes and, for
/// results with one number for each sequence, the mean, least and largest. Sequences that
/// `checkpoint` holds are taken from there. `checkpoint` and `estimate` may be null.
template <class T>
void run_mechanism(const cli::Arguments& arguments, const MechanismTask& task,
                   const mechanisms::Mechanism<T>& mechanism, MechanismEstimate<T>* estimate,
                   io::OutputBundle output, Checkpoint* checkpoint, cli::Progress& progress,
                   cli::Report& report);

}  // namespace attn::tools
