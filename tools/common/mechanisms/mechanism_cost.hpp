#pragma once

#include "common/costs/block_plan.hpp"
#include "common/mechanisms/mechanism_estimate.hpp"
#include "common/mechanisms/mechanism_task.hpp"
#include "mechanisms/mechanism.hpp"

namespace attn::tools {

/// The sequences in memory at a time. `estimate` may be null, here and below. Throws Error(memory)
/// if not even one fits.
template <class T>
BlockPlan plan_mechanism(const cli::Arguments& arguments, const MechanismTask& task,
                         const mechanisms::Mechanism<T>& mechanism,
                         const MechanismEstimate<T>* estimate);

/// --dry-run of a section.
template <class T>
void report_mechanism_cost(const cli::Arguments& arguments, const MechanismTask& task,
                           const mechanisms::Mechanism<T>& mechanism,
                           const MechanismEstimate<T>* estimate, cli::Report& report);

}  // namespace attn::tools
