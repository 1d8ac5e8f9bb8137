#include "kernel/dropout.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernel/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

// A 32-bit word of the generator in each 64-bit lane.
using Words = hn::ScalableTag<std::uint64_t>;
using WordVec = hn::Vec<Words>;
constexpr Index counters_at_once = 128;

struct Product {
  WordVec high;
  WordVec low;
};

// The halves of the 64-bit product of 32-bit words.
inline Product multiply_words(WordVec a, std::uint64_t b) {
  const Words d;
#if HWY_TARGET == HWY_SCALAR  // one lane, which has no even halves
  const WordVec whole = hn::Set(d, hn::GetLane(a) * b);
#else
  const hn::Repartition<std::uint32_t, Words> half;
  const WordVec whole = hn::MulEven(hn::BitCast(half, a), hn::BitCast(half, hn::Set(d, b)));
#endif
  return {hn::ShiftRight<32>(whole), hn::And(whole, hn::Set(d, 0xFFFFFFFFU))};
}

// Words 0 to 3 of the counters c, c + 1, …, a lane each; `c` as the lanes' lower 32 bits.
inline void philox(WordVec low, WordVec high, const DropoutStream& stream, WordVec (&word)[4]) {
  const Words d;
  constexpr std::uint64_t mask = 0xFFFFFFFFU;
  word[0] = low;
  word[1] = high;
  word[2] = hn::Set(d, stream.stream & mask);
  word[3] = hn::Set(d, stream.stream >> 32U);
  std::uint64_t key0 = stream.seed & mask;
  std::uint64_t key1 = stream.seed >> 32U;
  for (int round = 0; round < 10; ++round) {
    const Product a = multiply_words(word[0], 0xD2511F53U);
    const Product b = multiply_words(word[2], 0xCD9E8D57U);
    word[0] = hn::Xor(hn::Xor(b.high, word[1]), hn::Set(d, key0));
    word[1] = b.low;
    word[2] = hn::Xor(hn::Xor(a.high, word[3]), hn::Set(d, key1));
    word[3] = a.low;
    key0 = (key0 + 0x9E3779B9U) & mask;
    key1 = (key1 + 0xBB67AE85U) & mask;
  }
}

// drawn[4 n + w] = word w of counter `first` + n, for `count` counters and those that complete a
// vector.
inline void draw(Index first, Index count, const DropoutStream& stream, std::uint32_t* drawn) {
  const Words d;
  const Index step = static_cast<Index>(hn::Lanes(d));
  HWY_ALIGN std::uint64_t lane[4][HWY_MAX_BYTES / sizeof(std::uint64_t)];
  for (Index n = 0; n < count; n += step) {
    const WordVec counter = hn::Iota(d, static_cast<std::uint64_t>(first + n));
    WordVec word[4];
    philox(hn::And(counter, hn::Set(d, 0xFFFFFFFFU)), hn::ShiftRight<32>(counter), stream, word);
    for (int w = 0; w < 4; ++w) hn::Store(word[w], d, lane[w]);
    for (Index i = 0; i < step; ++i) {
      for (int w = 0; w < 4; ++w) drawn[4 * (n + i) + w] = static_cast<std::uint32_t>(lane[w][i]);
    }
  }
}

template <class T>
void Dropout(T* x, Index first, Index n, double rate, const DropoutStream& stream) {
  const auto threshold = static_cast<std::uint64_t>(std::llround(rate * 0x1p32));
  const T factor = static_cast<T>(1 / (1 - rate));
  std::uint32_t drawn[4 * counters_at_once];
  Index done = 0;
  while (done < n) {
    const Index counter = (first + done) / 4;
    const Index skipped = (first + done) % 4;
    const Index taken = std::min(n - done, 4 * counters_at_once - skipped);
    draw(counter, (skipped + taken + 3) / 4, stream, drawn);
    for (Index j = 0; j < taken; ++j) {
      x[done + j] = drawn[skipped + j] < threshold ? T{0} : x[done + j] * factor;
    }
    done += taken;
  }
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define ATTN_KERNELS(KERNEL, T)                                                   \
  KERNEL(T, void, dropout, Dropout,                                               \
         (T * x, Index first, Index n, double rate, const DropoutStream& stream), \
         (x, first, n, rate, stream))
#include "kernel/dispatch-inl.hpp"
