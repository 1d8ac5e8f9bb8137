#pragma once

#include <string>
#include <vector>

namespace attn::tools {

/// What --version of a tool that computes shows besides: the BLAS and the instruction set in use.
std::vector<std::string> numeric_libraries();

}  // namespace attn::tools
