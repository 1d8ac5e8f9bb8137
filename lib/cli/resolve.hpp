#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tensor/shape.hpp"

namespace attn::cli {

/// Reads a variable of the environment; absent where it is unset or empty.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// That of the process.
std::optional<std::string> process_environment(const std::string& name);

/// The CPUs that this process may run on (sched_getaffinity), at least 1.
int cpus_allowed();

/// --threads where given, else ATTN_NUM_THREADS, OMP_NUM_THREADS (the first of a list "4,2"),
/// SLURM_CPUS_PER_TASK, the CPUs allowed. Throws Error(usage) on an ATTN_NUM_THREADS that is no
/// number; the others belong to other programs, and what cannot be read there is passed over.
int resolve_threads(std::optional<Index> given, const Environment& environment);

/// --tmpdir where given, else TMPDIR, else /tmp.
std::string resolve_tmpdir(const std::string& given, const Environment& environment);

}  // namespace attn::cli
