#pragma once

#include <cstdint>
#include <string>

#include "attnkit/error.hpp"
#include "attnkit/stopping.hpp"

namespace attn::plan {

/// Throws Error(usage) that names an option, its value and the expected value.
template <class Value>
[[noreturn]] void refuse_option(const std::string& name, Value value, const std::string& expected) {
  throw Error(Failure::usage, name + " is " + std::to_string(value) + ", expected " + expected);
}

/// Throws Error(usage) unless ε > 0, iterations ≥ 1, the tolerance > 0 and kept_bytes ≥ 0, where
/// given, and all are finite.
void require_entropic(double epsilon, const Stopping& stopping, std::int64_t kept_bytes);

}  // namespace attn::plan
