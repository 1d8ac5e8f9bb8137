#include "kernel/targets.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

#include "attnkit/error.hpp"

namespace attn::kernel {
namespace {

// The instruction sets of this CPU, and those that the compiler may use anywhere.
std::int64_t targets_of_cpu() {
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  // A CPU that has AVX2, FMA and BMI2 has everything else that Highway requires.
  const bool ssse3 = __builtin_cpu_supports("ssse3");
  const bool avx2 = ssse3 && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
  if (ssse3) targets |= HWY_SSSE3;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
#endif
  return targets;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::int64_t wanted_target() {
  const std::vector<std::int64_t> available = available_targets();
  const char* const wanted = std::getenv("ATTN_TARGET");
  if (wanted == nullptr || *wanted == '\0') return available.front();
  std::string names;
  for (const std::int64_t target : available) {
    const std::string name = lower_case(hwy::TargetName(target));
    if (name == lower_case(wanted)) return target;
    names += (names.empty() ? "" : ", ") + name;
  }
  throw Error(Failure::usage, "ATTN_TARGET: expected an instruction set of this CPU, one of " +
                                  names + ", not '" + wanted + "'");
}

hwy::ChosenTarget& chosen() {
  static hwy::ChosenTarget target;
  static const bool is_set = [] {
    target.Update(wanted_target());
    return true;
  }();
  static_cast<void>(is_set);
  return target;
}

}  // namespace

std::vector<std::int64_t> available_targets() {
  std::vector<std::int64_t> found;
  // Highway gives better sets the lower bits.
  for (std::int64_t left = targets_of_cpu() & HWY_TARGETS; left != 0; left &= left - 1) {
    found.push_back(left & -left);
  }
  return found;
}

const hwy::ChosenTarget& chosen_target() { return chosen(); }

bool has_bf16_products() {
#if HWY_ARCH_X86
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
#else
  return false;
#endif
}

UseTarget::UseTarget(std::int64_t target) { chosen().Update(target); }
UseTarget::~UseTarget() { chosen().Update(wanted_target()); }

}  // namespace attn::kernel
