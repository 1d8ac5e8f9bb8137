// scaled-dot, dot and gaussian: one matrix product per tile.

#include <cmath>
#include <stdexcept>
#include <string>

#include "attnkit/error.hpp"
#include "energy/table.hpp"
#include "energy/typed_energy.hpp"
#include "gradient/energy_gradient.hpp"

namespace attn {
namespace {

class ProductEnergy final : public TypedEnergy<ProductEnergy> {
 public:
  ProductEnergy(std::string_view name, std::string_view formula, EnergyKind kind)
      : name_(name), formula_(formula), kind_(kind) {}

  std::string_view name() const override { return name_; }
  std::string_view formula() const override { return formula_; }
  const std::vector<EnergyOperand>& operands() const override { return none_; }
  bool needs_equal_depths() const override { return true; }
  double cost_scale() const override { return kind_ == EnergyKind::gaussian ? 2 : 0; }

  template <class T>
  std::unique_ptr<Energy<T>> make_of(const EnergyArguments<T>& given) const {
    return make_product_energy<T>(kind_, given.q, given.k, given.scale);
  }
  template <class T>
  std::unique_ptr<GradientSink<T>> differentiate_of(const EnergyArguments<T>& given,
                                                    const EnergyGradients<T>& wanted) const {
    return make_product_gradient<T>(kind_, given.q, given.k, given.scale, wanted.q, wanted.k);
  }

  std::int64_t bytes(const EnergySizes& sizes, std::size_t element_size) const override {
    return product_energy_bytes(kind_, sizes.queries, sizes.keys, sizes.q_depth, element_size);
  }
  std::int64_t gradient_bytes(const EnergySizes& sizes, std::size_t element_size,
                              Index lanes) const override {
    return product_gradient_bytes(kind_, sizes.queries, sizes.keys, sizes.q_depth, element_size,
                                  lanes);
  }
  EnergyFlops flops(const EnergySizes& sizes) const override {
    return {0, 2 * static_cast<double>(sizes.q_depth)};
  }

 private:
  std::string_view name_;
  std::string_view formula_;
  EnergyKind kind_;
  std::vector<EnergyOperand> none_;
};

// scaled-dot or dot of bfloat16 numbers.
class Bf16Energy final : public EnergyDescription {
 public:
  explicit Bf16Energy(const EnergyDescription& energy) : energy_(energy) {}

  std::string_view name() const override { return energy_.name(); }
  std::string_view formula() const override { return energy_.formula(); }
  const std::vector<EnergyOperand>& operands() const override { return energy_.operands(); }
  bool needs_equal_depths() const override { return true; }

  std::unique_ptr<Energy<float>> make(const EnergyArguments<float>& given) const override {
    const bool scaled = &energy_ == &scaled_dot_energy();
    const double divisor = scaled ? std::sqrt(static_cast<double>(given.q.cols)) : 1;
    return make_bf16_energy(given.q, given.k, given.scale / divisor);
  }
  std::unique_ptr<Energy<double>> make(const EnergyArguments<double>& /*given*/) const override {
    throw std::logic_error("scores of bfloat16 numbers are made in float32");
  }
  std::unique_ptr<GradientSink<float>> differentiate(
      const EnergyArguments<float>& given, const EnergyGradients<float>& wanted) const override {
    return energy_.differentiate(given, wanted);
  }
  std::unique_ptr<GradientSink<double>> differentiate(
      const EnergyArguments<double>& given, const EnergyGradients<double>& wanted) const override {
    return energy_.differentiate(given, wanted);
  }

  std::int64_t bytes(const EnergySizes& sizes, std::size_t /*element_size*/) const override {
    return bf16_energy_bytes(sizes.queries, sizes.keys, sizes.q_depth);
  }
  std::int64_t gradient_bytes(const EnergySizes& sizes, std::size_t element_size,
                              Index lanes) const override {
    return energy_.gradient_bytes(sizes, element_size, lanes);
  }
  EnergyFlops flops(const EnergySizes& sizes) const override { return energy_.flops(sizes); }

 private:
  const EnergyDescription& energy_;
};

}  // namespace

const EnergyDescription& scaled_dot_energy() {
  static const ProductEnergy energy("scaled-dot", "<q,k>/sqrt(d)", EnergyKind::scaled_dot);
  return energy;
}

const EnergyDescription& dot_energy() {
  static const ProductEnergy energy("dot", "<q,k>", EnergyKind::dot);
  return energy;
}

const EnergyDescription& gaussian_energy() {
  static const ProductEnergy energy("gaussian", "-|q-k|^2/2", EnergyKind::gaussian);
  return energy;
}

const EnergyDescription& in_bf16(const EnergyDescription& energy) {
  static const Bf16Energy scaled_dot(scaled_dot_energy());
  static const Bf16Energy dot(dot_energy());
  if (&energy == &scaled_dot_energy()) return scaled_dot;
  if (&energy == &dot_energy()) return dot;
  throw Error(Failure::usage, "bfloat16 products go with the energies scaled-dot and dot, not " +
                                  std::string(energy.name()));
}

}  // namespace attn
