// bilinear: scale·q_iᵀ W k_j.

#include "energy/table.hpp"
#include "energy/typed_energy.hpp"
#include "gradient/energy_gradient.hpp"

namespace attn {
namespace {

class BilinearDescription final : public TypedEnergy<BilinearDescription> {
 public:
  std::string_view name() const override { return "bilinear"; }
  std::string_view formula() const override { return "q'Wk (dataset w)"; }
  const std::vector<EnergyOperand>& operands() const override { return operands_; }
  bool needs_equal_depths() const override { return false; }

  template <class T>
  std::unique_ptr<Energy<T>> make_of(const EnergyArguments<T>& given) const {
    return make_bilinear_energy<T>(given.q, given.k, given.operands[0], given.scale, given.threads);
  }
  template <class T>
  std::unique_ptr<GradientSink<T>> differentiate_of(const EnergyArguments<T>& given,
                                                    const EnergyGradients<T>& wanted) const {
    return make_bilinear_gradient<T>(given.q, given.k, given.operands[0], given.scale, wanted.q,
                                     wanted.k, wanted.operand(0), given.threads);
  }

  std::int64_t bytes(const EnergySizes& sizes, std::size_t element_size) const override {
    return bilinear_energy_bytes(sizes.queries, sizes.keys, sizes.q_depth, sizes.k_depth,
                                 element_size);
  }
  std::int64_t gradient_bytes(const EnergySizes& sizes, std::size_t element_size,
                              Index lanes) const override {
    return bilinear_gradient_bytes(sizes.queries, sizes.keys, sizes.q_depth, sizes.k_depth,
                                   element_size, lanes);
  }
  // make_bilinear_energy projects queries or keys, whichever takes less work for a single pass.
  EnergyFlops flops(const EnergySizes& sizes) const override {
    const auto projected = [&](Index rows) {
      return product_flops(rows, sizes.q_depth, sizes.k_depth);
    };
    const auto with_one_pass = [&](Index rows, Index width) {
      return projected(rows) + product_flops(sizes.queries, sizes.keys, width);
    };
    const bool of_queries =
        with_one_pass(sizes.queries, sizes.k_depth) <= with_one_pass(sizes.keys, sizes.q_depth);
    return {projected(of_queries ? sizes.queries : sizes.keys),
            2 * static_cast<double>(of_queries ? sizes.k_depth : sizes.q_depth)};
  }

 private:
  std::vector<EnergyOperand> operands_{{"w", OperandLength::query_depth, OperandLength::key_depth,
                                        true, "the matrix of the energy"}};
};

}  // namespace

const EnergyDescription& bilinear_energy() {
  static const BilinearDescription energy;
  return energy;
}

}  // namespace attn
