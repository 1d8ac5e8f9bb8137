#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tensor/array_source.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// The arrays of a program that computes within its own process, as the Python package does. They
/// stand in for the files of a tool: inputs are read where they lie, and results are written to
/// memory. Only input() may be called from several threads.
class HostArrays {
 public:
  using Attribute = std::variant<double, std::int64_t, std::string>;

  virtual ~HostArrays() = default;

  /// The array called `name`; null if there is none.
  virtual std::shared_ptr<const ArraySource::Impl> input(const std::string& name) const = 0;

  /// Where the numbers of a result go: an array of its type, with strides in elements.
  struct Place {
    void* numbers = nullptr;
    Shape strides;
  };

  /// The place of the result `path`, "out" or "layer3/out". It must last as long as the run. Throws
  /// Error(input) if the program has provided an array of another shape or type.
  virtual Place result(const std::string& path, DType type, const Shape& shape) = 0;

  /// A result that holds strings.
  virtual void strings(const std::string& path, const std::vector<std::string>& values) = 0;

  /// What the result says of itself; `group` is "" for the root.
  virtual void attribute(const std::string& group, const std::string& name,
                         const Attribute& value) = 0;

  /// The share of the work that is done, in [0, 1]. Called from one thread at a time, now and then.
  virtual void progress(double share) = 0;
};

}  // namespace attn
