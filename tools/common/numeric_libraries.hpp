#pragma once

#include <string>
#include <vector>

#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"

namespace attn::tools {

/// What --version of a tool that computes shows besides: the BLAS and the instruction set in use.
/// A tool that asks for it ends with status 6 where there is not enough memory for OpenBLAS to
/// start.
std::vector<std::string> numeric_libraries();

}  // namespace attn::tools
