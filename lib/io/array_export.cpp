#include "io/array_export.hpp"

#include <algorithm>

#include "io/array_metadata.hpp"
#include "io/arrays/text_array.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"
#include "tensor/utf8.hpp"

namespace attn::io {
namespace {

/// Longer strings do not fit in the header of a .safetensors, and NumPy would pad all others.
constexpr std::size_t most_text_bytes = std::size_t{4} << 20;

}  // namespace

bool can_be_held(const std::vector<std::string>& values) {
  std::size_t bytes = 0;
  for (const std::string& value : values) {
    bytes += value.size();
    if (!is_utf8(value)) return false;
  }
  return bytes <= most_text_bytes;
}

Index width_of(const std::vector<std::string>& values) {
  std::size_t width = 1;
  for (const std::string& value : values) width = std::max(width, characters(value));
  return static_cast<Index>(width);
}

ArrayExport array_export(const InputBundle& bundle, const std::vector<Item>& items,
                         ArrayFormat format) {
  require_readable(items);
  ArrayExport made;
  std::vector<Item> kept;
  std::vector<TextDataset> texts;
  for (const Item& item : items) {
    if (item.is_group) {
      kept.push_back(item);
      continue;
    }
    ArrayPlan plan{item.path, item.dtype, item.shape, 0};
    if (item.dtype == DType::string) {
      std::vector<std::string> values = bundle.dataset(item.path).read_strings();
      if (!can_be_held(values) || format == ArrayFormat::npy) {
        made.left_out.push_back(item.path);
        continue;
      }
      plan.width = width_of(values);
      if (!holds(format, item.dtype)) {
        texts.push_back({item.path, item.shape, std::move(values)});
        kept.push_back(item);
        continue;
      }
    } else if (!holds(format, item.dtype)) {
      made.left_out.push_back(item.path);
      continue;
    }
    made.arrays.push_back(std::move(plan));
    kept.push_back(item);
  }
  made.metadata =
      metadata_text(root_attributes(bundle, metadata_values), kept, texts, made.left_out);
  return made;
}

void write_elements(const ArraySource& dataset, ArrayOutput& output) {
  if (dataset.dtype() == DType::string) return output.write_strings(dataset.read_strings());
  const std::size_t size = size_of(dataset.dtype());
  const Index limit = piece_elements(size);
  const Buffer<char> buffer(std::min(limit, element_count(dataset.shape())) *
                            static_cast<Index>(size));
  for_each_piece(dataset.shape(), limit, [&](const Piece& piece) {
    dataset.read_stored(piece.start, piece.count, buffer.data());
    output.write(buffer.data(), piece.size);
  });
}

}  // namespace attn::io
