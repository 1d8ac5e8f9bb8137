#include "tensor/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <Random123/philox.h>

namespace attn {
namespace {

constexpr double two_to_minus_53 = 0x1p-53;
constexpr Index pairs_at_once = 256;

struct Bits {
  std::uint64_t first;
  std::uint64_t second;
};

constexpr std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32U); }

Bits bits(std::uint64_t seed, std::uint64_t name, std::uint64_t pair) {
  const r123::Philox4x32::ctr_type counter = {{low(pair), high(pair), low(name), high(name)}};
  const r123::Philox4x32::key_type key = {{low(seed), high(seed)}};
  const r123::Philox4x32::ctr_type out = r123::Philox4x32()(counter, key);
  return {out[0] | std::uint64_t{out[1]} << 32U, out[2] | std::uint64_t{out[3]} << 32U};
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

double to_unit(std::uint64_t word) {
  return static_cast<double>(static_cast<std::int64_t>(word >> 11U)) * two_to_minus_53;
}

// log x for normal x > 0, error below 1 ulp: the reduction and the coefficients of fdlibm's
// e_log.c (Sun Microsystems, 1993). x = 2^k m, m in [sqrt(1/2), sqrt(2)).
double log_of(double x) {
  const auto word = std::bit_cast<std::int64_t>(x);
  const std::int64_t k = (word - std::bit_cast<std::int64_t>(0x1.6a09e667f3bcdp-1)) >> 52;
  const double m = std::bit_cast<double>(word - (k << 52));
  const double exponent = static_cast<double>(k);
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  const double w = z * z;
  const double even = w * (3.999999999940941908e-01 +
                           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd = z * (6.666666666666735130e-01 +
                          w * (2.857142874366239149e-01 +
                               w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  constexpr double ln2_high = 6.93147180369123816490e-01;
  constexpr double ln2_low = 1.90821492927058770002e-10;
  return exponent * ln2_high -
         ((half_square - (s * (half_square + (even + odd)) + exponent * ln2_low)) - f);
}

struct Direction {
  double cosine;
  double sine;
};

// Cosine and sine of `turns` / 2^64 of a full turn. The quadrant is removed in integers, so the
// remainder, at most an eighth of a turn, has only its rounding error. Coefficients of fdlibm's
// k_cos.c and k_sin.c (Sun Microsystems, 1993).
Direction direction(std::uint64_t turns) {
  const std::uint64_t quadrant = (turns + (std::uint64_t{1} << 61U)) >> 62U;
  const auto rest = static_cast<std::int64_t>(turns - (quadrant << 62U));
  const double x = static_cast<double>(rest) * (6.283185307179586477 * 0x1p-64);
  const double z = x * x;
  const double sine =
      x + x * z *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                z * 1.58969099521155010221e-10)))));
  const double cosine =
      1 -
      (0.5 * z -
       z * z *
           (4.16666666666666019037e-02 +
            z * (-1.38888888888741095749e-03 +
                 z * (2.48015872894767294178e-05 +
                      z * (-2.75573143513906633035e-07 +
                           z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
  // Selected by bits: branches on random quadrants would be mispredicted every other time.
  const auto cosine_bits = std::bit_cast<std::uint64_t>(cosine);
  const auto sine_bits = std::bit_cast<std::uint64_t>(sine);
  const std::uint64_t swap = (cosine_bits ^ sine_bits) & (0 - (quadrant & 1U));
  return {std::bit_cast<double>((cosine_bits ^ swap) ^ ((quadrant + 1) & 2U) << 62U),
          std::bit_cast<double>((sine_bits ^ swap) ^ (quadrant & 2U) << 62U)};
}

// Writes elements [first, first + count) of the stream whose pair number p is `draw(p)`, through a
// buffer of whole pairs.
template <class Draw>
void by_pairs(Index first, Index count, double* out, const Draw& draw) {
  double pairs[2 * pairs_at_once];
  while (count > 0) {
    const Index skipped = first % 2;
    const Index taken = std::min(count, 2 * pairs_at_once - skipped);
    const Index needed = (skipped + taken + 1) / 2;
    for (Index p = 0; p < needed; ++p) {
      draw(static_cast<std::uint64_t>(first / 2 + p), pairs[2 * p], pairs[2 * p + 1]);
    }
    std::copy_n(pairs + skipped, taken, out);
    first += taken;
    out += taken;
    count -= taken;
  }
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name)
    : seed_(seed), name_(fnv1a(name)) {}

void RandomStream::uniform(Index first, Index count, double* out) const {
  by_pairs(first, count, out, [&](std::uint64_t pair, double& even, double& odd) {
    const Bits drawn = bits(seed_, name_, pair);
    even = to_unit(drawn.first);
    odd = to_unit(drawn.second);
  });
}

void RandomStream::normal(Index first, Index count, double* out) const {
  by_pairs(first, count, out, [&](std::uint64_t pair, double& even, double& odd) {
    const Bits drawn = bits(seed_, name_, pair);
    const double radius = std::sqrt(-2 * log_of(to_unit(drawn.first) + two_to_minus_53));
    const Direction towards = direction(drawn.second);
    even = radius * towards.cosine;
    odd = radius * towards.sine;
  });
}

}  // namespace attn
