#pragma once

#include <string>

#include "attnkit/error.hpp"

namespace attn::cli {

/// The error that ended a run.
struct Failed {
  int exit = 0;
  std::string message;
  std::string hint;
};

/// The exit status and the messages of an error.
Failed failed_by(const Error& error);

/// The same for the exception being handled: std::bad_alloc ends with 6, another exception than
/// Error is a bug and ends with 70.
Failed failure_in_flight();

}  // namespace attn::cli
