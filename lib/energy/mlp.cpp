// mlp: scale·w2ᵀ tanh(W1[q_i; k_j] + b1).

#include "energy/table.hpp"
#include "energy/typed_energy.hpp"
#include "gradient/energy_gradient.hpp"

namespace attn {
namespace {

template <class T>
std::span<T> span_of(const MatrixView<T>& vector) {
  if (vector.data == nullptr) return {};
  return std::span<T>(vector.data, static_cast<std::size_t>(vector.cols));
}

class MlpDescription final : public TypedEnergy<MlpDescription> {
 public:
  std::string_view name() const override { return "mlp"; }
  std::string_view formula() const override {
    return "w2'tanh(W1[q;k]+b1) (datasets w1, w2 and optionally b1)";
  }
  const std::vector<EnergyOperand>& operands() const override { return operands_; }
  bool needs_equal_depths() const override { return false; }

  template <class T>
  std::unique_ptr<Energy<T>> make_of(const EnergyArguments<T>& given) const {
    return make_mlp_energy<T>(given.q, given.k, weights_of(given), given.scale, given.threads);
  }
  template <class T>
  std::unique_ptr<GradientSink<T>> differentiate_of(const EnergyArguments<T>& given,
                                                    const EnergyGradients<T>& wanted) const {
    MlpGradients<T> gradients;
    gradients.q = wanted.q;
    gradients.k = wanted.k;
    gradients.w1 = wanted.operand(0);
    gradients.w2 = span_of(wanted.operand(1));
    gradients.bias = span_of(wanted.operand(2));
    return make_mlp_gradient<T>(given.q, given.k, weights_of(given), given.scale, gradients,
                                given.threads);
  }

  std::int64_t bytes(const EnergySizes& sizes, std::size_t element_size) const override {
    return mlp_energy_bytes(sizes.queries, sizes.keys, sizes.hidden, element_size);
  }
  std::int64_t gradient_bytes(const EnergySizes& sizes, std::size_t element_size,
                              Index lanes) const override {
    return mlp_gradient_bytes(sizes.queries, sizes.keys, sizes.hidden, element_size, lanes);
  }
  EnergyFlops flops(const EnergySizes& sizes) const override {
    // For each hidden unit, a pair takes a sum, a tanh, a product and another sum.
    return {product_flops(sizes.queries, sizes.q_depth, sizes.hidden) +
                product_flops(sizes.keys, sizes.k_depth, sizes.hidden),
            4 * static_cast<double>(sizes.hidden)};
  }

 private:
  template <class T>
  static MlpWeights<T> weights_of(const EnergyArguments<T>& given) {
    return {given.operands[0], span_of(given.operands[1]), span_of(given.operands[2])};
  }

  std::vector<EnergyOperand> operands_{
      {"w1", OperandLength::hidden, OperandLength::both_depths, true,
       "the weights of the hidden layer"},
      {"w2", OperandLength::one, OperandLength::hidden, true, "the weights of the output"},
      {"b1", OperandLength::one, OperandLength::hidden, false, "the biases of the hidden layer"}};
};

}  // namespace

const EnergyDescription& mlp_energy() {
  static const MlpDescription energy;
  return energy;
}

}  // namespace attn
