#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "python/held_array.hpp"
#include "tensor/host_arrays.hpp"

namespace attn::python {

/// The arrays of one call: Python's objects as inputs, and NumPy arrays for results.
class PythonHost final : public HostArrays {
 public:
  /// `inputs` and `places` map names to arrays; the latter are written. `progress` is called with
  /// the share that is done, or None. Requires the GIL. Throws the errors of take_array, and
  /// Error(input) for places that overlap an input or each other.
  PythonHost(const pybind11::dict& inputs, const pybind11::dict& places, pybind11::object progress);
  ~PythonHost() override;

  std::shared_ptr<const ArraySource::Impl> input(const std::string& name) const override;
  Place result(const std::string& path, DType type, const Shape& shape) override;
  void strings(const std::string& path, const std::vector<std::string>& values) override;
  void attribute(const std::string& group, const std::string& name,
                 const Attribute& value) override;
  void progress(double share) override;

  /// Reports a share of 1, unless that was the last one.
  void finish_progress();

  /// Set by progress() after an exception of the callback, and by a signal.
  std::atomic<bool>& stop() { return stop_; }

  /// Throws the exception of the callback, if there was one. Requires the GIL.
  void rethrow();

  pybind11::dict results() const { return results_; }
  pybind11::dict attributes() const { return attributes_; }

 private:
  std::map<std::string, std::shared_ptr<const ArraySource::Impl>> inputs_;
  std::map<std::string, HeldArray> places_;
  pybind11::dict given_;  // the objects of places_
  pybind11::object progress_;
  pybind11::dict results_;
  pybind11::dict attributes_;
  std::atomic<bool> stop_{false};
  std::exception_ptr failure_;
  double last_share_ = 0;
};

/// A string of Python; bytes that are not UTF-8 are replaced.
pybind11::str text_of(const std::string& text);

/// A new NumPy array for numbers of this type. Throws std::bad_alloc.
pybind11::array new_array(DType type, const Shape& shape);

/// Throws Error(input) for arrays of results that overlap an input or each other.
void require_apart(const std::map<std::string, HeldArray>& inputs,
                   const std::map<std::string, HeldArray>& places);

/// Throws Error(input) unless `place` has this type and shape, and an aligned place of its own for
/// each element.
void require_place(const std::string& name, const HeldArray& place, DType type, const Shape& shape);

}  // namespace attn::python
