#pragma once

#include <string>
#include <vector>

#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"

namespace attn::tools {

/// What --version of a tool that computes shows besides: the BLAS and the instruction set in use.
inline std::vector<std::string> numeric_libraries() {
  return {kernel::blas_description(), std::string("SIMD ") + kernel::simd_description()};
}

}  // namespace attn::tools
