#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace attn {

/// The category of an Error.
enum class Failure {
  usage,      ///< options that do not exist or contradict each other
  input,      ///< input missing, unreadable, or of a wrong type, shape or value
  numerical,  ///< cannot be computed: infeasible, singular, beyond the range of the format
  output,     ///< the result cannot be written
  memory,     ///< does not fit into the allowed memory
};

/// A change that would avoid the error, if the library knows one.
enum class Remedy {
  none,
  float64,  ///< the same computation in float64
};

/// The exception by which this library reports errors. A run that is asked to stop throws Stopped
/// instead (attnkit/context.hpp). `what()` is one line without a full stop. It names the fault, its
/// place and the expected value. `hint()` is one line, or empty.
class Error : public std::runtime_error {
 public:
  Error(Failure failure, const std::string& message, std::string hint = {})
      : std::runtime_error(message), failure_(failure), hint_(std::move(hint)) {}
  Error(Failure failure, const std::string& message, Remedy remedy)
      : std::runtime_error(message), failure_(failure), remedy_(remedy) {}

  Failure failure() const noexcept { return failure_; }
  Remedy remedy() const noexcept { return remedy_; }
  const std::string& hint() const noexcept { return hint_; }

  /// The same error with its place in front: "PLACE: MESSAGE".
  Error at(const std::string& place) const {
    Error placed(failure_, place + ": " + what(), hint_);
    placed.remedy_ = remedy_;
    return placed;
  }

 private:
  Failure failure_;
  Remedy remedy_ = Remedy::none;
  std::string hint_;
};

/// Throws Error(numerical) for a number beyond the range of T. `message` ends in "is beyond the
/// range of"; the name of the format is appended. The remedy for float32 is float64.
template <class T>
[[noreturn]] void throw_beyond_range(const std::string& message) {
  constexpr bool is_float = sizeof(T) == sizeof(float);
  throw Error(Failure::numerical, message + " " + (is_float ? "float32" : "float64"),
              is_float ? Remedy::float64 : Remedy::none);
}

}  // namespace attn
