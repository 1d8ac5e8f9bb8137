#pragma once

#include <array>

namespace attn {

class EnergyDescription;

/// One function per energy, defined in the energy's file. `energies` lists their results.
const EnergyDescription& scaled_dot_energy();
const EnergyDescription& dot_energy();
const EnergyDescription& gaussian_energy();
const EnergyDescription& euclidean_energy();
const EnergyDescription& l1_energy();
const EnergyDescription& cosine_energy();
const EnergyDescription& bilinear_energy();
const EnergyDescription& mlp_energy();

/// The same energy for bfloat16 numbers that are stored as float32; see make_bf16_energy. Throws
/// Error(usage) unless the energy is scaled-dot or dot.
const EnergyDescription& in_bf16(const EnergyDescription& energy);

/// The names of the operands of `energies`, in their order, for programs that are linked without
/// the mathematics.
inline constexpr std::array energy_operand_names = {"w", "w1", "w2", "b1"};

}  // namespace attn
