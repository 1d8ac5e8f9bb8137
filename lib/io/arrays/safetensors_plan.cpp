#include "io/arrays/safetensors_plan.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "io/arrays/array_output.hpp"
#include "io/arrays/safetensors_type.hpp"
#include "io/arrays/stored_array.hpp"

namespace attn::io {

std::string safetensors_header(const std::vector<SafetensorsPlan>& arrays,
                               const std::string& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    const nlohmann::json entry = {{metadata_key, metadata}};
    text += nlohmann::json(metadata_name).dump() + ":" + entry.dump();
  }
  Index at = 0;
  for (const SafetensorsPlan& plan : arrays) {
    const std::optional<SafetensorsType> type = safetensors_type(plan.dtype);
    if (!type)
      throw std::invalid_argument("no safetensors of type " + std::string(name(plan.dtype)));
    const Index end = at + array_bytes(plan.shape, size_of(plan.dtype), plan.name);
    nlohmann::ordered_json entry;
    entry["dtype"] = type->name;
    entry["shape"] = plan.shape;
    entry["data_offsets"] = {at, end};
    text += (text.size() > 1 ? "," : "") + nlohmann::json(plan.name).dump() + ":" + entry.dump();
    at = end;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string header_bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    header_bytes += static_cast<char>(static_cast<std::uint64_t>(text.size()) >> shift & 0xff);
  }
  return header_bytes + text;
}

bool safetensors_before(const SafetensorsPlan& a, const SafetensorsPlan& b) {
  const int rank_a = safetensors_type(a.dtype).value().rank;
  const int rank_b = safetensors_type(b.dtype).value().rank;
  return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
}

}  // namespace attn::io
