#pragma once

namespace attn {

class EnergyDescription;

/// One function per energy, defined in the energy's file. `energies` lists their results.
const EnergyDescription& scaled_dot_energy();
const EnergyDescription& dot_energy();
const EnergyDescription& gaussian_energy();
const EnergyDescription& bilinear_energy();
const EnergyDescription& mlp_energy();

}  // namespace attn
