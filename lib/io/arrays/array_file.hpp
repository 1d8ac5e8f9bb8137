#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// A file that holds only arrays, either named ones or a single one without a name: .npy, .npz,
/// .safetensors, or the index of a checkpoint in several .safetensors. Shared by the datasets read
/// from it; may be used from any thread.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  /// Whether the file holds one unnamed array (.npy, a table), which has the empty
  /// name here.
  virtual bool is_single() const { return false; }

  /// Sorted.
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;

  /// Returns the array `name`, for which has() must be true. `address` is its name in messages.
  /// Throws Error(input) if its header is malformed.
  virtual StoredArray array(const std::string& name, const std::string& address) const = 0;

  /// The text that ArrayOutput stored as metadata, which is not listed as an array. It may come
  /// from anybody. Empty if there is none.
  virtual std::string metadata() const { return {}; }

  /// The path of the other file that holds the array, in an index of a checkpoint in parts.
  virtual std::string part_of(const std::string&) const { return {}; }

 protected:
  ArrayFile() = default;
};

/// The name of an array of the file `label` in messages: "m.safetensors:layer.0.q", "a.npy".
std::string array_address(const std::string& label, const std::string& name);

/// A file that holds `array` and nothing else.
std::shared_ptr<const ArrayFile> single_array(StoredArray array);

/// Opens a regular file if it has one of these formats, else returns null. The format is detected
/// from the first bytes, and from the file name if these are not conclusive. `bytes` is the whole
/// file, `descriptor` refers to it; compressed members are unpacked in `tmpdir`. Throws
/// Error(input) if the file is malformed.
std::shared_ptr<const ArrayFile> open_array_file(int descriptor, const std::string& label,
                                                 const std::string& tmpdir);

/// Reads up to `count` bytes from offset `at`; `label` names the file in messages. Returns the
/// number of bytes read, which is smaller than `count` at the end of the file. Throws Error(input)
/// with the system's reason.
std::size_t read_start(int descriptor, const std::string& label, unsigned char* out,
                       std::size_t count, off_t at = 0);

/// The format detected from the first bytes of a file ("an .npy file"); empty if these bytes do not
/// identify one of the formats.
std::string array_format(const unsigned char* start, std::size_t size);

}  // namespace attn::io
