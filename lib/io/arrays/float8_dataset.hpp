#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/arrays/array_dataset.hpp"

namespace attn::io {

/// The scales of an array in 8 bits, and their name in messages.
struct Float8Scales {
  StoredArray array;
  std::string address;
};

/// An array of 8-bit floating-point numbers, F8_E4M3 or F8_E5M2 of .safetensors, read as float32:
/// each number times the scale of its block, rounded once. Along each axis of n elements, there is
/// one scale, one for each element, or one for each 128 elements (the block of DeepSeek's and
/// Qwen's checkpoints); there may also be one scale for each element of the first axis only.
/// Without scales, the numbers are widened exactly, and the description is the bare name of the
/// type. E4M3 has no infinity: its largest number is 448 (Micikevicius et al. 2022, FP8 formats for
/// deep learning, Table 1).
class Float8Dataset : public ArraySource::Impl {
 public:
  static bool reads(const StoredArray& array);

  /// The arguments of ArrayDataset. Throws Error(input) if the scales are no floating-point numbers
  /// or have a shape that does not fit the array.
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
