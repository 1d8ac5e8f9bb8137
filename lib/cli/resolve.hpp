#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tensor/shape.hpp"

namespace attn::cli {

/// Reads an environment variable; absent if it is unset or empty.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// Reads a variable of the process's environment.
std::optional<std::string> process_environment(const std::string& name);

/// The number of CPUs that this process may run on (sched_getaffinity), at least 1.
int cpus_allowed();

/// The number of threads: --threads, else ATTN_NUM_THREADS, OMP_NUM_THREADS (the first number of
/// "4,2"), SLURM_CPUS_PER_TASK, or cpus_allowed(), in this order. Throws Error(usage) for an
/// invalid ATTN_NUM_THREADS; invalid values of the other variables are ignored, since other
/// programs set them.
int resolve_threads(std::optional<Index> given, const Environment& environment);

/// The folder for temporaries: --tmpdir, else TMPDIR, else /tmp.
std::string resolve_tmpdir(const std::string& given, const Environment& environment);

}  // namespace attn::cli
