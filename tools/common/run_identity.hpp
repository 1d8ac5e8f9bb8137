#pragma once

#include <string>

#include "cli/command.hpp"

namespace attn::tools {

/// JSON of what tells runs apart: tool, version, the options that change results, and the names,
/// sizes and times of change of the files that are read: the inputs, and those to which virtual
/// datasets, external links and raw storage of HDF5 inputs lead. Runs that agree in it have the
/// same results.
std::string run_of(const cli::Arguments& arguments);

/// JSON of a report's `params`, without those of which no result depends.
std::string params_text(cli::Report& report);

/// Where one run differs from another, both as run_of describes them: "scheme is "dnas", not
/// "unas"". Empty if they agree.
std::string run_difference(const std::string& one, const std::string& other);

}  // namespace attn::tools
