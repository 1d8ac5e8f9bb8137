#pragma once

#include <cstddef>
#include <string>

namespace attn::io {

/// How a file of torch.save becomes one that the tools read.
inline constexpr const char* hint_on_torch =
    "in Python: safetensors.torch.save_file(torch.load('FILE'), 'FILE.safetensors')";

/// A format of arrays that the tools do not read.
struct ForeignFormat {
  std::string kind;  ///< "a Python pickle"; empty: unknown
  std::string hint;
};

/// The format of a file that begins with these bytes, of which 16 suffice.
ForeignFormat foreign_format(const unsigned char* start, std::size_t size);

}  // namespace attn::io
