#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace attn::tools {

/// JSON of the identity of a run: tool, version, the options that change results, and the names,
/// sizes and times of change of the files that are read: the inputs, and the files to which virtual
/// datasets, external links and raw storage of HDF5 inputs lead. Runs with the same identity have
/// the same results.
std::string run_of(const cli::Arguments& arguments);

/// An input of a run: INPUT, or a dataset of -i.
struct RunInput {
  std::string name;     ///< the name of -i; "" for INPUT
  std::string address;  ///< as given
  std::string inside;   ///< the part of the address after the file: ":/layer3/k[0]"
  std::optional<std::int64_t> size = {};
  std::optional<double> changed = {};  ///< the time, in seconds
};

/// The contents of a result of run_of. Throws Error(input) that names its `place` if it is damaged.
struct RunDescription {
  std::string tool;
  std::vector<RunInput> inputs;
};
RunDescription described_run(const std::string& run, const std::string& place);

/// How `address` differs from the input of the run: "its size is 5, not 7". Empty if nothing
/// differs; the name of the file may differ.
std::string input_difference(const RunInput& input, const std::string& address);

/// JSON of a report's `params`, without params on which no result depends.
std::string params_text(cli::Report& report);

/// How one run differs from another, both as described_run accepts them: "scheme is "dnas", not
/// "unas"". Empty if they agree.
std::string run_difference(const std::string& one, const std::string& other);

}  // namespace attn::tools
