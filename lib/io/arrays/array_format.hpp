#pragma once

namespace attn::io {

/// The format of a file of arrays that is to be written.
enum class ArrayFormat { npy, npz, safetensors };

}  // namespace attn::io
