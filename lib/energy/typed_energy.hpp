#pragma once

#include "energy/energy_description.hpp"

namespace attn {

/// Implements an EnergyDescription's functions for both types by templates of Derived:
///
///   template <class T> std::unique_ptr<Energy<T>> make_of(const EnergyArguments<T>&) const;
///   template <class T> std::unique_ptr<GradientSink<T>> differentiate_of(
///       const EnergyArguments<T>&, const EnergyGradients<T>&) const;
template <class Derived>
class TypedEnergy : public EnergyDescription {
 public:
  std::unique_ptr<Energy<float>> make(const EnergyArguments<float>& arguments) const final {
    return self().template make_of<float>(arguments);
  }
  std::unique_ptr<Energy<double>> make(const EnergyArguments<double>& arguments) const final {
    return self().template make_of<double>(arguments);
  }
  std::unique_ptr<GradientSink<float>> differentiate(
      const EnergyArguments<float>& arguments,
      const EnergyGradients<float>& gradients) const final {
    return self().template differentiate_of<float>(arguments, gradients);
  }
  std::unique_ptr<GradientSink<double>> differentiate(
      const EnergyArguments<double>& arguments,
      const EnergyGradients<double>& gradients) const final {
    return self().template differentiate_of<double>(arguments, gradients);
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

/// Floating-point operations of a product of matrices (rows, inner) and (inner, cols).
constexpr double product_flops(Index rows, Index inner, Index cols) {
  return 2 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(cols);
}

}  // namespace attn
