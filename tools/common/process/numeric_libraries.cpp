#include "common/process/numeric_libraries.hpp"

#include "kernel/blas.hpp"
#include "kernel/tile.hpp"

namespace attn::tools {

std::vector<std::string> numeric_libraries() {
  return {kernel::blas_description(), std::string("SIMD ") + kernel::simd_description()};
}

}  // namespace attn::tools
