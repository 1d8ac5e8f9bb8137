#include "cli/failed.hpp"

#include <new>

#include "cli/memory_hint.hpp"
#include "cli/words.hpp"
#include "system/exit_status.hpp"

namespace attn::cli {
namespace {

constexpr int internal_error = 70;  // EX_SOFTWARE of sysexits.h

}  // namespace

Failed failed_by(const Error& error) {
  const bool wants_float64 = error.remedy() == Remedy::float64;
  return {exit_status(error.failure()), one_line(error.what()),
          wants_float64 ? "--precision f64" : one_line(error.hint())};
}

Failed failure_in_flight() {
  try {
    throw;
  } catch (const Error& error) {
    return failed_by(error);
  } catch (const std::bad_alloc&) {
    return {exit_status(Failure::memory), "out of memory", less_memory_hint};
  } catch (const std::exception& error) {
    return {internal_error, "internal: " + one_line(error.what()), ""};
  } catch (...) {
    return {internal_error, "internal: unknown exception", ""};
  }
}

}  // namespace attn::cli
