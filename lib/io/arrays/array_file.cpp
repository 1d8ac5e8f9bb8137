#include "io/arrays/array_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/npy_header.hpp"
#include "io/arrays/npz_file.hpp"
#include "io/arrays/safetensors_header.hpp"
#include "io/arrays/sharded_file.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

class SingleArray : public ArrayFile {
 public:
  explicit SingleArray(StoredArray array) : array_(std::move(array)) {}

  bool is_single() const override { return true; }
  std::vector<std::string> names() const override { return {std::string()}; }
  bool has(const std::string& name) const override { return name.empty(); }
  StoredArray array(const std::string&, const std::string&) const override { return array_; }

 private:
  StoredArray array_;
};

/// The header's length is read from the file, so it is bounded by the file's size; the reference
/// implementation also refuses headers beyond 100 MB.
constexpr std::uint64_t most_safetensors_header = 100'000'000;

std::uint64_t header_length(const unsigned char* start) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | start[i];
  return length;
}

class SafetensorsFile : public ArrayFile {
 public:
  SafetensorsFile(const std::shared_ptr<const Bytes>& bytes, const std::string& label) {
    std::array<unsigned char, 8> start{};
    if (bytes->size() < 8) throw Error(Failure::input, label + " is too short for .safetensors");
    bytes->read(0, 8, start.data());
    const std::uint64_t length = header_length(start.data());
    if (length > most_safetensors_header || static_cast<Index>(length) > bytes->size() - 8) {
      throw Error(Failure::input,
                  label + " claims a safetensors header of " + std::to_string(length) +
                      " bytes in a total of " + std::to_string(bytes->size()) + " bytes",
                  "it is truncated, or not a .safetensors file");
    }
    std::string json(static_cast<std::size_t>(length), '\0');
    const Index data = 8 + static_cast<Index>(length);
    bytes->read(8, static_cast<Index>(length), json.data());
    entries_ = read_safetensors_header(json, bytes->size() - data, label, &metadata_);
    for (auto& [name, entry] : entries_) {
      entry.array.bytes = bytes;
      entry.array.offset = data + entry.begin;
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, entry] : entries_) all.push_back(name);
    return all;
  }
  bool has(const std::string& name) const override { return entries_.count(name) != 0; }
  StoredArray array(const std::string& name, const std::string&) const override {
    return entries_.at(name).array;
  }
  std::string metadata() const override { return metadata_; }

 private:
  std::map<std::string, SafetensorsEntry> entries_;
  std::string metadata_;
};

bool is_npy(const unsigned char* start, std::size_t size) {
  return size >= npy_magic_size && std::memcmp(start, npy_magic, npy_magic_size) == 0;
}

/// Whether the bytes are a local header, or the end of a directory without entries.
bool is_zip(const unsigned char* start, std::size_t size) {
  return size >= 4 &&
         (std::memcmp(start, "PK\x03\x04", 4) == 0 || std::memcmp(start, "PK\x05\x06", 4) == 0);
}

/// Whether the bytes are a length that fits the file and the beginning of a JSON object.
bool may_be_safetensors(const unsigned char* start, std::size_t size, Index file_size) {
  return size > 8 && start[8] == '{' &&
         header_length(start) <= static_cast<std::uint64_t>(file_size - 8);
}

/// Some 300,000 arrays.
constexpr off_t most_index = 32'000'000;

std::shared_ptr<const ArrayFile> open_index(int descriptor, const std::string& label,
                                            const std::string& tmpdir, off_t size) {
  if (size > most_index) {
    throw Error(Failure::input, label + " has " + std::to_string(size) +
                                    " bytes, too many for an index of a checkpoint");
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  text.resize(
      read_start(descriptor, label, reinterpret_cast<unsigned char*>(text.data()), text.size()));
  return std::make_shared<ShardedFile>(text, label, tmpdir);
}

}  // namespace

std::string array_format(const unsigned char* start, std::size_t size) {
  if (is_npy(start, size)) return "an .npy file";
  if (is_zip(start, size)) return "an .npz (zip) file";
  return {};
}

std::size_t read_start(int descriptor, const std::string& label, unsigned char* out,
                       std::size_t count, off_t at) {
  for (;;) {
    const ssize_t got = pread(descriptor, out, count, at);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) {
      throw Error(Failure::input, label + " cannot be read: " + system_reason(errno));
    }
  }
}

std::string array_address(const std::string& label, const std::string& name) {
  return name.empty() ? label : label + ":" + name;
}

std::shared_ptr<const ArrayFile> single_array(StoredArray array) {
  return std::make_shared<SingleArray>(std::move(array));
}

std::shared_ptr<const ArrayFile> open_array_file(int descriptor, const std::string& label,
                                                 const std::string& tmpdir) {
  std::array<unsigned char, 16> start{};
  const std::size_t size = read_start(descriptor, label, start.data(), start.size());
  struct stat status {};
  fstat(descriptor, &status);
  if (is_zip(start.data(), size)) return std::make_shared<NpzFile>(descriptor, label, tmpdir);
  if (is_called_index(label) && size > 0) {
    return open_index(descriptor, label, tmpdir, status.st_size);
  }
  const bool npy = is_npy(start.data(), size);
  if (!npy && !label.ends_with(".safetensors") &&
      !may_be_safetensors(start.data(), size, status.st_size)) {
    return nullptr;
  }
  Descriptor own(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!own) throw Error(Failure::input, "cannot open " + label + ": " + system_reason(errno));
  auto bytes = std::make_shared<FileBytes>(std::move(own), label, status.st_size);
  if (npy) return single_array(read_npy_header(std::move(bytes), label));
  return std::make_shared<SafetensorsFile>(bytes, label);
}

}  // namespace attn::io
