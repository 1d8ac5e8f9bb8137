#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/arrays/array_dataset.hpp"

namespace attn::io {

/// The scales of an array in 8 bits.
struct Float8Scales {
  StoredArray array;
  std::string address;  ///< for messages
  std::function<Shape()>
      stated_blocks;  ///< of the checkpoint; called only if shapes leave a choice
};

/// An array of 8-bit floating-point numbers, F8_E4M3 or F8_E5M2 of .safetensors, read as float32:
/// each number times the scale of its block, rounded once. Along each axis, scale_block says how
/// many elements share a scale: as the checkpoint states, else 128 (DeepSeek, Qwen), else 32 for
/// powers of two (MX), else what the shapes say alone. There may also be scales for the first axes
/// only. Scales are floating-point numbers, or powers of two: 2^(byte − 127) of type F8_E8M0 or U8,
/// where 255 is NaN (OCP Microscaling Formats 1.0, §5.4). Without scales, the numbers are widened
/// exactly, and the description is the bare name of the type. E4M3 has no infinity: its largest
/// number is 448 (Micikevicius et al. 2022, FP8 formats for deep learning, Table 1).
class Float8Dataset : public ArraySource::Impl {
 public:
  static bool reads(const StoredArray& array);

  /// The arguments of ArrayDataset. Throws Error(input) if the scales have another type, or a shape
  /// that does not fit the array. Reading throws Error(input) for a scale that is the NaN of
  /// F8_E8M0.
  Float8Dataset(StoredArray array, std::optional<Float8Scales> scales, std::string dataset_name,
                std::string address_text, const std::vector<SliceItem>& selection);
  ~Float8Dataset() override;

  void read_stored(const Shape& start, const Shape& count, void* out) const override;

 private:
  class Scales;

  ArrayDataset bits_;
  const float* values_;  ///< of the 256 numbers
  Hyperslab slab_;
  std::unique_ptr<const Scales> scales_;  ///< null without scales
};

}  // namespace attn::io
