#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// A file that holds arrays by name, or one without a name, and nothing else: .npy, .npz,
/// .safetensors. Shared by the datasets that come from it; any thread may use it.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  /// Holds one array, which is called by the empty name here (.npy).
  virtual bool is_single() const { return false; }

  /// Sorted.
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;

  /// One that has() that name. `address` is what messages call it. Throws Error(input) where its
  /// header is malformed.
  virtual StoredArray array(const std::string& name, const std::string& address) const = 0;

 protected:
  ArrayFile() = default;
};

/// What messages call an array of the file `label`: "m.safetensors:layer.0.q", "a.npy".
std::string array_address(const std::string& label, const std::string& name);

/// Looks at a regular file's first bytes, and at its name where these do not tell, and opens it if
/// it is one of these formats; nothing where it is none. `bytes` is all of it, `descriptor` leads
/// to it; compressed members are unpacked in `tmpdir`. Throws Error(input): malformed.
std::shared_ptr<const ArrayFile> open_array_file(int descriptor, const std::string& label,
                                                 const std::string& tmpdir);

/// Reads up to `count` bytes at `at` of the file, which messages call `label`; returns how many,
/// fewer at its end. Throws Error(input) with the system's reason.
std::size_t read_start(int descriptor, const std::string& label, unsigned char* out,
                       std::size_t count, off_t at = 0);

/// Which of the formats a file begins as ("an .npy file"); empty where it is none of them that can
/// be told by the first bytes alone.
std::string array_format(const unsigned char* start, std::size_t size);

}  // namespace attn::io
