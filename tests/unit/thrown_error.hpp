#pragma once

#include <doctest/doctest.h>

#include <string>

#include "attnkit/error.hpp"

namespace attn::testing {

/// Returns the Error that `body` throws. If it throws none, fails a check and returns another
/// Error.
template <class Body>
Error thrown_error(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  FAIL_CHECK("no Error was thrown");
  return Error(Failure{0}, "");
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace attn::testing
