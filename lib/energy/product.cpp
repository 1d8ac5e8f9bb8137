// scaled-dot, dot and gaussian: one matrix product per tile.

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

}  // namespace attn
