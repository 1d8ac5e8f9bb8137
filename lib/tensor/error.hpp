#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace attn {

/// What kind of failure an Error is; the value is the exit status of a tool that ends with it.
enum class Failure {
  usage = 2,      ///< the command line asks for something that does not exist or fit together
  input = 3,      ///< input missing, unreadable, of a wrong type, shape or value
  numerical = 4,  ///< cannot be computed: infeasible, singular, beyond the format's range
  output = 5,     ///< the result cannot be written
  memory = 6,     ///< does not fit into the memory that was allowed
};

/// The only exception that this library throws on purpose. `what()` is one line without a full
/// stop, naming the file, the dataset and what was expected; `hint()` is one line, or empty.
class Error : public std::runtime_error {
 public:
  Error(Failure failure, const std::string& message, std::string hint = {})
      : std::runtime_error(message), failure_(failure), hint_(std::move(hint)) {}

  Failure failure() const noexcept { return failure_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  Failure failure_;
  std::string hint_;
};

}  // namespace attn
