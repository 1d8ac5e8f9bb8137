#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "io/arrays/array_file.hpp"

namespace attn::io {

/// The name of the index of a checkpoint in parts, as Hugging Face's libraries write it.
inline constexpr std::string_view index_name = "model.safetensors.index.json";

/// Whether `file` is called as such an index: "model.safetensors.index.json", or
/// "NAME.safetensors.index.fp16.json".
bool is_called_index(const std::string& file);

/// A checkpoint in parts: an index says in which .safetensors file of its folder each array is.
/// A part is opened when an array of it is asked for, so other parts may be missing.
class ShardedFile : public ArrayFile {
 public:
  /// `text` is the index `label`: {"weight_map": {ARRAY: FILE, ...}, ...}. Throws Error(input) if
  /// it does not have this form, names an array twice, or a file outside of its folder.
  ShardedFile(const std::string& text, std::string label, std::string tmpdir);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return files_.count(name) != 0; }
  /// Throws Error(input) also if the part is missing, is not a .safetensors file, or does not have
  /// the array.
  StoredArray array(const std::string& name, const std::string& address) const override;
  std::string part_of(const std::string& name) const override;

 private:
  std::shared_ptr<const ArrayFile> part(const std::string& name) const;

  std::string label_;
  std::string tmpdir_;
  std::map<std::string, std::string> files_;  ///< by array
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const ArrayFile>> parts_;  ///< by path
};

}  // namespace attn::io
