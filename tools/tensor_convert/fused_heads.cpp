#include "tensor_convert/fused_heads.hpp"

namespace attn::tools {

HeadPlaces fused_places(Fusion fusion, Index part, Index heads, Index kv_heads, Index size) {
  const Index run = heads / kv_heads;
  if (fusion == Fusion::groups) {
    const Index before = part == 0 ? 0 : run + part - 1;
    return {before * size, size, part == 0 ? run : 1, (run + 2) * size};
  }
  const Index count = part == 0 ? heads : kv_heads;
  const Index before = part == 0 ? 0 : heads + (part - 1) * kv_heads;
  return {before * size, size, count, 0};
}

}  // namespace attn::tools
