#pragma once

#include "attnkit/error.hpp"
#include "cli/report_impl.hpp"

namespace attn::cli {

/// The exit status and the messages of an error.
Failed failed_by(const Error& error);

/// The same for the exception being handled: std::bad_alloc ends with 6, another exception than
/// Error is a bug and ends with 70.
Failed failure_in_flight();

}  // namespace attn::cli
