#include "python/declared_tools.hpp"

#include <pybind11/pybind11.h>

#include <map>

namespace attn::python {

const DeclaredTool& declared(const std::string& name) {
  static const std::map<std::string, DeclaredTool> all = [] {
    std::map<std::string, DeclaredTool> made;
    for (const tools::ToolDefinition* tool :
         {&tools::attn_compute, &tools::basis_paths, &tools::explain_away_stats,
          &tools::lambda_solve, &tools::mode_collapse_sim, &tools::sinkhorn_iter}) {
      cli::Declaration declaration = tool->declare();
      made.emplace(declaration.tool(), DeclaredTool{tool, declaration});
    }
    return made;
  }();
  const auto found = all.find(name);
  if (found == all.end()) throw pybind11::key_error(name);
  return found->second;
}

}  // namespace attn::python
