#pragma once

#include <string>

#include "cli/command.hpp"
#include "common/frame/tool.hpp"

namespace attn::python {

struct DeclaredTool {
  const tools::ToolDefinition* tool;
  cli::Declaration declaration;
};

/// The tool called `name`, "attn-compute". Throws pybind11::key_error for another name.
const DeclaredTool& declared(const std::string& name);

}  // namespace attn::python
