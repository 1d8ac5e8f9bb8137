#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <vector>

/// The instruction set that kernels run on: the best that was compiled and that this CPU has, or
/// the one that the environment variable ATTN_TARGET names (avx3, avx2, ssse3, scalar, in any
/// case). OpenBLAS chooses by itself (OPENBLAS_CORETYPE).
///
/// Highway's headers make the tables of kernels. Highway's library, which would choose, measures
/// the CPU's clock for 3 ms whenever it is loaded.
namespace attn::kernel {

/// The instruction sets that were compiled and that this CPU has, the best first, as HWY_AVX2 and
/// so on.
std::vector<std::int64_t> available_targets();

/// The instruction set in use. If ATTN_TARGET is not available, throws Error(usage) that names the
/// available ones.
const hwy::ChosenTarget& chosen_target();

/// Whether the instruction set in use has products of bfloat16 numbers (AVX512-BF16).
bool has_bf16_products();

/// Uses `target` until the end of the scope. Not while kernels run on other threads.
class UseTarget {
 public:
  explicit UseTarget(std::int64_t target);
  ~UseTarget();
  UseTarget(const UseTarget&) = delete;
  UseTarget& operator=(const UseTarget&) = delete;
};

}  // namespace attn::kernel

#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)

// One version only.
#define ATTN_EXPORT(function) static_assert(true, "a semicolon follows")
#define ATTN_CHOSEN(function) HWY_STATIC_DISPATCH(function)

#else

/// Defines the table of the versions of a function, in Highway's order, like HWY_EXPORT, but
/// without its first entry, which would call Highway's library.
#define ATTN_EXPORT(function)                                               \
  constexpr decltype(&HWY_STATIC_DISPATCH(function)) function##_table[] = { \
      nullptr, HWY_CHOOSE_TARGET_LIST(function), HWY_CHOOSE_FALLBACK(function)}

/// The version for the instruction set in use.
#define ATTN_CHOSEN(function) (function##_table[attn::kernel::chosen_target().GetIndex()])

#endif
