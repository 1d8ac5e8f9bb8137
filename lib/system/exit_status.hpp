#pragma once

#include "attnkit/error.hpp"

namespace attn {

/// The exit status of a tool that fails with an Error of this category.
constexpr int exit_status(Failure failure) noexcept {
  switch (failure) {
    case Failure::usage:
      return 2;
    case Failure::input:
      return 3;
    case Failure::numerical:
      return 4;
    case Failure::output:
      return 5;
    case Failure::memory:
      return 6;
  }
  return 1;
}

}  // namespace attn
