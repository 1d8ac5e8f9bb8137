#include "io/arrays/npz_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/array_dataset.hpp"
#include "io/arrays/array_output.hpp"
#include "io/arrays/foreign_format.hpp"
#include "io/arrays/npy_header.hpp"
#include "io/arrays/zip_member.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

constexpr std::string_view suffix = ".npy";

[[noreturn]] void refuse_archive(const std::string& label, const std::string& why) {
  throw Error(Failure::input, label + " is a damaged .npz (zip) file: " + why);
}

std::string text_of(int zip_error) {
  zip_error_t error;
  zip_error_init_with_code(&error, zip_error);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

bool has_control(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
  }
  return false;
}

}  // namespace

std::string libzip_version() { return zip_libzip_version(); }

NpzFile::NpzFile(int descriptor, const std::string& label, std::string tmpdir)
    : archive_(std::make_shared<ZipArchive>()), tmpdir_(std::move(tmpdir)) {
  archive_->label = label;
  struct stat status {};
  fstat(descriptor, &status);
  size_ = status.st_size;
  Descriptor own(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!own) throw Error(Failure::input, "cannot open " + label + ": " + system_reason(errno));
  int error = 0;
  errno = 0;
  // Duplicates the descriptor, and closes the original if it succeeds.
  archive_->handle = zip_fdopen(own.get(), 0, &error);
  if (archive_->handle == nullptr) {
    const int failure = errno;
    if ((error == ZIP_ER_READ || error == ZIP_ER_SEEK) && failure != 0) {
      throw Error(Failure::input, label + " cannot be read: " + system_reason(failure));
    }
    refuse_archive(label, text_of(error));
  }
  own.release();
  const zip_int64_t count = zip_get_num_entries(archive_->handle, 0);
  for (zip_int64_t index = 0; index < count; ++index) add(static_cast<zip_uint64_t>(index));
  take_metadata();
}

// An array of that name that holds something else is an array like any other.
void NpzFile::take_metadata() {
  if (!has(metadata_name)) return;
  const std::string address = array_address(archive_->label, metadata_name);
  const StoredArray stored = array(metadata_name, address);
  const Index most = static_cast<Index>(metadata_limit) * 4;
  if (stored.dtype != DType::string || !stored.shape.empty()) return;
  if (static_cast<Index>(stored.element_size) > most) return;
  const std::string text = ArrayDataset(stored, metadata_name, address, {}).read_strings().at(0);
  if (text.rfind("{\"schema\":\"attnkit/", 0) != 0) return;
  metadata_ = text;
  members_.erase(metadata_name);
}

void NpzFile::add(zip_uint64_t index) {
  const char* const found = zip_get_name(archive_->handle, index, ZIP_FL_ENC_GUESS);
  if (found == nullptr) refuse_archive(archive_->label, zip_strerror(archive_->handle));
  const std::string_view name(found);
  constexpr std::string_view pickle = "data.pkl";
  if (name.size() > pickle.size() && name.substr(name.size() - pickle.size()) == pickle) {
    throw Error(Failure::input, archive_->label + " is a pickled PyTorch file, expected an .npz",
                hint_on_torch);
  }
  if (name.size() <= suffix.size() || name.substr(name.size() - suffix.size()) != suffix) return;
  if (has_control(name)) {
    throw Error(Failure::input,
                archive_->label + " has a member whose name holds a control character");
  }
  const std::string array(name.substr(0, name.size() - suffix.size()));
  if (!members_.emplace(array, index).second) {
    throw Error(Failure::input, archive_->label + " holds two arrays called " + array);
  }
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> all;
  for (const auto& [name, index] : members_) all.push_back(name);
  return all;
}

ZipEntry NpzFile::entry(zip_uint64_t index, const std::string& address) const {
  const std::lock_guard<std::mutex> lock(archive_->mutex);
  zip_stat_t status;
  zip_stat_init(&status);
  if (zip_stat_index(archive_->handle, index, 0, &status) != 0) {
    throw Error(Failure::input,
                address + " cannot be read: " + std::string(zip_strerror(archive_->handle)));
  }
  constexpr zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if ((status.valid & needed) != needed) {
    throw Error(Failure::input, address + " has no size in its archive");
  }
  if ((status.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && status.encryption_method != ZIP_EM_NONE) {
    throw Error(Failure::input, address + " is encrypted");
  }
  if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE) {
    throw Error(Failure::input, address + " is compressed by zip's method " +
                                    std::to_string(status.comp_method) +
                                    ", expected none or deflate");
  }
  const bool deflated = status.comp_method == ZIP_CM_DEFLATE;
  // Deflate expands 2 bits to at most 258 bytes.
  constexpr zip_uint64_t most_growth = 1032;
  const auto size = static_cast<zip_uint64_t>(size_);
  const bool possible =
      status.comp_size <= size &&
      (deflated ? status.size / most_growth <= status.comp_size : status.size == status.comp_size);
  if (!possible) {
    throw Error(Failure::input, address + " claims " + std::to_string(status.size) + " bytes in " +
                                    std::to_string(status.comp_size) +
                                    " compressed ones, which is impossible (the file has " +
                                    std::to_string(size_) + ")");
  }
  return {index, static_cast<Index>(status.size), static_cast<Index>(status.comp_size), deflated};
}

StoredArray NpzFile::array(const std::string& name, const std::string& address) const {
  const ZipEntry found = entry(members_.at(name), address);
  return read_npy_header(found.deflated ? open_deflated_member(archive_, found, address, tmpdir_)
                                        : open_stored_member(archive_, found, address),
                         address);
}

}  // namespace attn::io
