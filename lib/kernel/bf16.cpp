#include "kernel/bf16.hpp"

#include <bit>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/bf16.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernel/packed_exp-inl.hpp"
#include "kernel/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::kernel::HWY_NAMESPACE {

using Bits = hn::ScalableTag<std::uint32_t>;
using Float = Vec<float>;

inline hn::Vec<Bits> bits_of(Float x) { return hn::BitCast(Bits(), x); }
inline Float float_of(hn::Vec<Bits> x) { return hn::BitCast(Tag<float>(), x); }
inline Float upper_of(Float pairs) {
  return float_of(hn::And(bits_of(pairs), hn::Set(Bits(), 0xFFFF0000U)));
}
inline Float lower_of(Float pairs) { return float_of(hn::ShiftLeft<16>(bits_of(pairs))); }

// A left-hand factor of pairs, for any CPU. The products are exact, so that a multiplication and an
// addition give the bits of a fused one.
struct Pairs {
  const float* at;
  Index row;
  static constexpr Index step = 1;

  static HWY_INLINE Float flushed(Float x) {
    const Tag<float> d;
    const auto tiny = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-126F));
    return hn::IfThenElse(tiny, hn::CopySign(hn::Zero(d), x), x);
  }
  static HWY_INLINE Float add(Float x, Float b, Float sum) {
    sum = flushed(hn::MulAdd(upper_of(x), upper_of(b), sum));
    return flushed(hn::MulAdd(lower_of(x), lower_of(b), sum));
  }
};
inline Pairs rows_from(Pairs a, Index i) { return {a.at + i * a.row, a.row}; }

#if HWY_TARGET == HWY_AVX3
// The same by the instruction for it, which is no part of Highway's instruction set.
struct PairsByInstruction {
  const float* at;
  Index row;
  static constexpr Index step = 1;

  static HWY_INLINE Float add(Float x, Float b, Float sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(b.raw));
    return sum;
  }
};
inline PairsByInstruction rows_from(PairsByInstruction a, Index i) {
  return {a.at + i * a.row, a.row};
}
#endif

template <class Body>
void with_pairs(MatrixView<const float> a, const Body& body) {
#if HWY_TARGET == HWY_AVX3
  if (has_bf16_products()) return body(PairsByInstruction{a.data, a.row_stride});
#endif
  body(Pairs{a.data, a.row_stride});
}

void MultiplyBf16(float alpha, MatrixView<const float> a, const Packed<float>& b, Index col0,
                  MatrixView<float> out) {
  const Scaled<float> finish{hn::Set(Tag<float>(), alpha)};
  with_pairs(a, [&](auto left)
                    HWY_ATTR { multiply_panels<float>(left, a.cols, b, col0, 0, out, finish); });
}

void MultiplyExpBf16(float alpha, MatrixView<const float> a, const Packed<float>& b, Index col0,
                     MatrixView<float> out, double* row_sum, double* col_sum, double* row_product) {
  with_pairs(a, [&](auto left) HWY_ATTR {
    multiply_exp<float>(alpha, left, a.cols, b, col0, out, row_sum, col_sum, row_product);
  });
}

void PairBf16(const float* x, Index n, float* pairs) {
  const Tag<float> d;
  const Index step = lanes<float>();
  const Float least = hn::Set(d, least_bf16);
  const auto kept = [&](Float v)
                        HWY_ATTR { return hn::IfThenElseZero(hn::Ge(hn::Abs(v), least), v); };
  Index j = 0;
  for (; j + 2 * step <= n; j += 2 * step) {
    Float first, second;
    hn::LoadInterleaved2(d, x + j, first, second);
    const auto low = hn::ShiftRight<16>(bits_of(kept(first)));
    hn::StoreU(float_of(hn::Or(low, bits_of(kept(second)))), d, pairs + j / 2);
  }
  for (; j < n; j += 2) {
    const auto bits = [&](Index at) {
      const bool is_kept = at < n && (x[at] >= least_bf16 || x[at] <= -least_bf16);
      return is_kept ? std::bit_cast<std::uint32_t>(x[at]) : 0U;
    };
    pairs[j / 2] = std::bit_cast<float>((bits(j) >> 16U) | bits(j + 1));
  }
}

Index FirstNotBf16(const float* x, Index n) {
  const Tag<float> d;
  const Index step = lanes<float>();
  const auto lower = hn::Set(Bits(), 0xFFFFU);
  Index j = 0;
  for (; j + step <= n; j += step) {
    if (!hn::AllTrue(Bits(),
                     hn::Eq(hn::And(bits_of(hn::LoadU(d, x + j)), lower), hn::Zero(Bits())))) {
      break;
    }
  }
  while (j < n && (std::bit_cast<std::uint32_t>(x[j]) & 0xFFFFU) == 0) ++j;
  return j;
}

}  // namespace attn::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn::kernel {

ATTN_EXPORT(MultiplyBf16);
ATTN_EXPORT(MultiplyExpBf16);
ATTN_EXPORT(PairBf16);
ATTN_EXPORT(FirstNotBf16);

void multiply_bf16(float alpha, MatrixView<const float> a, const Packed<float>& b, Index col0,
                   MatrixView<float> out) {
  ATTN_CHOSEN(MultiplyBf16)(alpha, a, b, col0, out);
}

void multiply_exp_bf16(float alpha, MatrixView<const float> a, const Packed<float>& b, Index col0,
                       MatrixView<float> out, double* row_sum, double* col_sum,
                       double* row_product) {
  ATTN_CHOSEN(MultiplyExpBf16)(alpha, a, b, col0, out, row_sum, col_sum, row_product);
}

void pair_bf16(const float* x, Index n, float* pairs) { ATTN_CHOSEN(PairBf16)(x, n, pairs); }

Index first_not_bf16(const float* x, Index n) { return ATTN_CHOSEN(FirstNotBf16)(x, n); }

}  // namespace attn::kernel
#endif
