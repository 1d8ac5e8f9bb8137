#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/shape.hpp"

namespace attn {

/// Random numbers, each a function of (seed, name, index) only: any part of the stream can be
/// computed by itself, in any thread, with the same bits.
///
/// Philox4x32-10 (Salmon et al., SC 2011) with the seed as key and (index / 2, hash of the name) as
/// counter. Each call yields two numbers: element 2p from its first 64 bits and 2p + 1 from its
/// second. The hash is FNV-1a, 64 bits, over the bytes of the name.
///
/// Uses only + - * / and sqrt, which IEEE 754 rounds correctly, and neither libm nor fused
/// operations (the project compiles with -ffp-contract=off): the bits are the same on any machine.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  /// out[k] = element first + k, uniform on the multiples of 2^-53 in [0, 1).
  /// Requires first >= 0 and count >= 0.
  void uniform(Index first, Index count, double* out) const;

  /// out[k] = element first + k, standard normal by Box and Muller: sqrt(-2 log u) times cosine and
  /// sine of the same angle, u a multiple of 2^-53 in (0, 1]. Within 3e-15 of exact arithmetic, and
  /// within 8.58 of 0. `uniform` uses the same bits at the same index: draw the two from streams of
  /// different names.
  void normal(Index first, Index count, double* out) const;

 private:
  std::uint64_t seed_;
  std::uint64_t name_;
};

}  // namespace attn
