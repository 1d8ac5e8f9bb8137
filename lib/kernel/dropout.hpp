#pragma once

#include <cstdint>

#include "tensor/shape.hpp"

namespace attn::kernel {

/// Which elements a dropout removes: element j is number 4c + w, word w of Philox4x32-10 (Salmon et
/// al., SC 2011) at the counter (c, stream) under the key `seed`. Whether an element is removed
/// depends on (seed, stream, j) alone; it is the same in the forward and in the backward pass, in
/// any thread and on any CPU.
struct DropoutStream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

/// x_j ← 0 with probability `rate`, else x_j / (1 − rate), for elements [first, first + n) of the
/// stream; rate in [0, 1) is rounded to a multiple of 2^-32. Requires first >= 0.
void dropout(float* x, Index first, Index n, double rate, const DropoutStream& stream);
void dropout(double* x, Index first, Index n, double rate, const DropoutStream& stream);

}  // namespace attn::kernel
