#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/config_object.hpp"
#include "tensor_convert/model_families.hpp"

namespace attn::tools {

/// The rotary positions of a layer, from config.json.
struct RotarySettings {
  io::ConfigPlace place;
  std::string type;  ///< default, linear, ntk, yarn or llama3
  double theta = 0;
  double fraction = 1;
  std::optional<Index> channels;  ///< that rotate; else a fraction of the head's
  double factor = 1;
  double original = 0;  ///< the length of training: yarn, llama3
  double low = 0, high = 0;
  std::optional<double> attention_factor;
  bool truncates = true;
};

/// The rotary positions of a layer with or without a window; absent if the layer does not rotate.
/// Throws Error(input) for a scaling of another type, such as one that depends on the length of the
/// input, and for members that are missing or out of range.
std::optional<RotarySettings> rotary_settings(const io::ConfigObject& config,
                                              const ModelFamily& family, bool has_window);

/// The angle per position of each pair of channels, and if they are not 1 the factors of cosine and
/// sine behind them: the dataset rotary. Formulas of Hugging Face's modeling_rope_utils.py (5.0),
/// in float64: with r channels and θ_i = theta^(−2i/r),
///
///   linear  θ_i / factor
///   ntk     theta · factor^(r/(r−2)) in place of theta
///   yarn    θ_i (1 − γ_i) / factor + θ_i γ_i, with γ falling from 1 to 0 between the pairs that
///           turn beta_fast and beta_slow times in the length of training (Peng et al. 2023)
///   llama3  θ_i, θ_i / factor, or between both, by the wavelength 2π/θ_i
///
/// Throws Error(input) for a number of channels that does not fit the head.
std::vector<double> rotary_numbers(const RotarySettings& settings, Index head_size);

}  // namespace attn::tools
