#include "common/checkpoint_record.hpp"

#include "attnkit/error.hpp"

namespace attn::tools {

void LoadingArchive::require(std::uint64_t count, std::size_t size) const {
  if (count <= left_() / size) return;
  throw Error(Failure::input, "it has other numbers than this run would have written");
}

}  // namespace attn::tools
