#pragma once

#include <string>
#include <vector>

namespace attn::tools {

/// The BLAS and the instruction set in use, for --version of tools that compute.
std::vector<std::string> numeric_libraries();

}  // namespace attn::tools
