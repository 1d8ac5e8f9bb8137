#pragma once

#include <string>

#include "tensor/shape.hpp"

namespace attn::io {

/// The numbers along each of the last axes of a weight that share a scale, from the member
/// quantization_config.weight_block_size of a config.json, as transformers and DeepSeek write it:
/// {128, 128}. Empty if there is no such file or member. Throws Error(input) if the file is no
/// regular file, if it is not a JSON object, or if the member is no list of integers > 0.
Shape stated_blocks(const std::string& config);

/// How many of the `length` numbers along an axis share each of `count` scales, so that `count` is
/// ⌈length / result⌉; 0 if this is not known. One scale is for all numbers, `length` scales are for
/// one each. For other counts, `stated` if it is not 0; else `usual`, the first of them that fits;
/// else length / count, if it is a whole number and no power of two gives as many scales, too.
Index scale_block(Index length, Index count, Index stated, const Shape& usual);

}  // namespace attn::io
