#pragma once

#include <string>

#include "tensor/shape.hpp"

namespace attn::tools {

/// A norm of queries and keys before they are rotated.
enum class HeadNormKind {
  none,
  rms,
  rms_plus_one,  ///< the stored weights are those of an RMS norm less 1
  layer,
};

/// How the decoders of one family in Hugging Face's transformers make queries and keys of their
/// projections, by the model_type of config.json: first a norm, then rotary positions. What
/// config.json may say has the value that holds if it does not.
struct ModelFamily {
  const char* type;
  bool rotates = true;
  bool interleaved = false;  ///< pairs of channels 2i and 2i + 1
  double theta = 1e4;        ///< 0: versions differ, so that config.json must say it
  double fraction = 1;       ///< of the channels that rotate; 0: config.json must say how many
  HeadNormKind norm = HeadNormKind::none;
  const char* norm_if = nullptr;  ///< the member without which there is no norm; null: always
  double epsilon = 1e-6;
  Index windows = 0;          ///< every n-th layer has no window; 1: all have one; 0: none has
  Index window = 0;           ///< its size; 0: none
  bool windows_late = false;  ///< with use_sliding_window only, from layer max_window_layers on
  double multiplier = 0;      ///< of ⟨q, k⟩; 0: 1/√d
  double scalar = 0;          ///< s of ⟨q, k⟩/√s; 0: none
  double cap = 0;             ///< of the scores, with `scalar`; 0: none
  bool rotates_windows_only = false;
  /// Layers with a window rotate without scaling, by this theta if it is not 0.
  bool windows_unscaled = false;
  double window_theta = 0;
};

/// The family, or null if the type is not known.
const ModelFamily* family_called(const std::string& type);

}  // namespace attn::tools
