#pragma once

#include <zip.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/arrays/array_file.hpp"

namespace attn::io {

/// A zip archive open for reading. libzip is not re-entrant: only one thread may use it at a time.
struct ZipArchive {
  zip_t* handle = nullptr;
  std::string label;
  std::mutex mutex;

  ZipArchive() = default;
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;
  ~ZipArchive() {
    if (handle != nullptr) zip_discard(handle);
  }
};

/// One member of the archive, as its directory describes it.
struct ZipEntry {
  zip_uint64_t index = 0;
  Index size = 0;
  Index stored_size = 0;
  bool deflated = false;
};

/// A NumPy .npz: a zip archive whose members NAME.npy are its arrays NAME. Other members are
/// ignored.
class NpzFile : public ArrayFile {
 public:
  /// `descriptor` refers to the file and still belongs to the caller. Throws Error(input) if it is
  /// not a zip archive, is damaged, or has two arrays of one name.
  NpzFile(int descriptor, const std::string& label, std::string tmpdir);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return members_.count(name) != 0; }
  StoredArray array(const std::string& name, const std::string& address) const override;
  std::string metadata() const override { return metadata_; }

 private:
  void take_metadata();
  void add(zip_uint64_t index);
  ZipEntry entry(zip_uint64_t index, const std::string& address) const;

  std::shared_ptr<ZipArchive> archive_;
  Index size_ = 0;
  std::string tmpdir_;
  std::map<std::string, zip_uint64_t> members_;
  std::string metadata_;
};

}  // namespace attn::io
