#include <algorithm>

#include "attnkit/error.hpp"
#include "energy/energy_description.hpp"
#include "energy/table.hpp"

namespace attn {

const std::vector<const EnergyDescription*>& energies() {
  static const std::vector<const EnergyDescription*> all = {
      &scaled_dot_energy(), &dot_energy(),    &gaussian_energy(), &euclidean_energy(),
      &l1_energy(),         &cosine_energy(), &bilinear_energy(), &mlp_energy()};
  return all;
}

const EnergyDescription& energy_called(std::string_view name) {
  const auto found = std::find_if(
      energies().begin(), energies().end(),
      [&](const EnergyDescription* description) { return description->name() == name; });
  if (found != energies().end()) return **found;
  std::string known;
  for (const EnergyDescription* description : energies()) {
    known += (known.empty() ? "" : ", ") + std::string(description->name());
  }
  throw Error(Failure::usage,
              "the energy is '" + std::string(name) + "', expected one of " + known);
}

Index length_of(OperandLength length, const EnergySizes& sizes) {
  switch (length) {
    case OperandLength::one:
      return 1;
    case OperandLength::query_depth:
      return sizes.q_depth;
    case OperandLength::key_depth:
      return sizes.k_depth;
    case OperandLength::both_depths:
      return sizes.q_depth + sizes.k_depth;
    case OperandLength::hidden:
      break;
  }
  return sizes.hidden;
}

}  // namespace attn
