#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attn::python {

/// A plan of attention (attnkit/attention.hpp) that Python holds: made once for arrays of some
/// shapes and for options, then run on others of these shapes. Arrays are passed as dicts by name.
/// Arrays of the plan's type whose last axis is contiguous are used in place, others are copied in
/// each run. Several threads may call one plan; their runs take turns. All functions require the
/// GIL, and release it for the computation.
class PlanObject {
 public:
  virtual ~PlanObject() = default;

  /// Runs the plan on `arrays`; results go to the arrays of `places`, or to new ones. Returns the
  /// results by name, and whether all problems converged.
  virtual pybind11::tuple run(const pybind11::dict& arrays, const pybind11::dict& places) = 0;

  /// The gradients of a loss by the operands `wanted`, from its gradient `grad_out` by out. With
  /// `results` of a run on the same arrays, nothing is computed twice; without, everything.
  virtual pybind11::dict gradients(const pybind11::dict& arrays, const pybind11::object& grad_out,
                                   const std::vector<std::string>& wanted,
                                   const pybind11::object& results) = 0;

  virtual void set_dropout(double rate, std::uint64_t seed, std::uint64_t stream) = 0;

  /// What attn-compute would warn of, and whether causality leaks: whether the weights of a query
  /// depend on later queries.
  std::vector<std::string> warnings;
  bool leaks = false;

  virtual std::string dtype() const = 0;
  virtual std::int64_t workspace_bytes() const = 0;

  /// Whether gradients() can use results of a run.
  virtual bool reuses_results() const = 0;
};

/// `command_line` holds options of attn-compute, which are checked as those of the tool are.
std::unique_ptr<PlanObject> make_plan(const std::vector<std::string>& command_line,
                                      const pybind11::dict& arrays);

}  // namespace attn::python
