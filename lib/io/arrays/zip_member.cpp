#include "io/arrays/zip_member.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "system/system_reason.hpp"
#include "system/unnamed_file.hpp"
#include "tensor/buffer.hpp"

namespace attn::io {
namespace {

constexpr Index prefix_size = Index{128} << 10;  // longer than the longest header that is accepted
constexpr Index piece_size = Index{1} << 20;

/// An open member. Its user must hold the archive's mutex.
class ZipStream {
 public:
  ZipStream(const ZipArchive& archive, zip_uint64_t index, const std::string& address)
      : address_(address), handle_(zip_fopen_index(archive.handle, index, 0)) {
    if (handle_ == nullptr) refuse(zip_get_error(archive.handle));
  }
  ~ZipStream() {
    if (handle_ != nullptr) zip_fclose(handle_);
  }
  ZipStream(const ZipStream&) = delete;
  ZipStream& operator=(const ZipStream&) = delete;

  /// Reads up to `count` bytes; fewer only at the end.
  Index read(Index count, char* out) {
    Index done = 0;
    while (done < count) {
      const zip_int64_t got =
          zip_fread(handle_, out + done, static_cast<zip_uint64_t>(count - done));
      if (got < 0) refuse(zip_file_get_error(handle_));
      if (got == 0) break;
      done += got;
    }
    return done;
  }

  /// Whether the member ends here. libzip compares the checksum at this point.
  bool at_end() {
    char byte = 0;
    return read(1, &byte) == 0;
  }

  void seek(Index offset) {
    if (zip_fseek(handle_, offset, SEEK_SET) < 0) refuse(zip_file_get_error(handle_));
  }

  // The system's reason, if there is one, is more precise than libzip's.
  [[noreturn]] void refuse(zip_error_t* error) const {
    const int number = zip_error_code_system(error);
    const bool of_system = zip_error_system_type(error) == ZIP_ET_SYS && number != 0;
    refuse(of_system ? system_reason(number) : std::string(zip_error_strerror(error)));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Failure::input, address_ + " cannot be read: " + why);
  }

 private:
  std::string address_;
  zip_file_t* handle_;
};

class StoredMember : public Bytes {
 public:
  StoredMember(std::shared_ptr<ZipArchive> archive, const ZipEntry& entry,
               const std::string& address)
      : Bytes(entry.size),
        archive_(std::move(archive)),
        index_(entry.index),
        address_(address),
        stream_(open(entry, address)) {}
  ~StoredMember() override {
    const std::lock_guard<std::mutex> lock(archive_->mutex);
    stream_.reset();
  }

  void read(Index offset, Index count, void* out) const override {
    if (count == 0) return;  // libzip 1.7.3 crashes seeking in an empty member
    const std::lock_guard<std::mutex> lock(archive_->mutex);
    if (offset > 0 && !std::exchange(checked_, true)) check();
    stream_->seek(offset);
    if (stream_->read(count, static_cast<char*>(out)) != count) {
      stream_->refuse("it ends too early");
    }
  }

 private:
  std::unique_ptr<ZipStream> open(const ZipEntry& entry, const std::string& address) const {
    const std::lock_guard<std::mutex> lock(archive_->mutex);
    return std::make_unique<ZipStream>(*archive_, entry.index, address);
  }

  // Reads all of it once before the first element is used; a header is read from 0.
  void check() const {
    ZipStream stream(*archive_, index_, address_);
    const Buffer<char> buffer(std::min(piece_size, size()));
    while (stream.read(buffer.size(), buffer.data()) == buffer.size()) {
    }
  }

  std::shared_ptr<ZipArchive> archive_;
  zip_uint64_t index_;
  std::string address_;
  std::unique_ptr<ZipStream> stream_;
  mutable bool checked_ = false;  // protected by the archive's mutex
};

class DeflatedMember : public Bytes {
 public:
  DeflatedMember(std::shared_ptr<ZipArchive> archive, const ZipEntry& entry, std::string address,
                 std::string tmpdir)
      : Bytes(entry.size),
        archive_(std::move(archive)),
        index_(entry.index),
        address_(std::move(address)),
        tmpdir_(std::move(tmpdir)),
        prefix_(static_cast<std::size_t>(std::min(entry.size, prefix_size))) {
    const std::lock_guard<std::mutex> lock(archive_->mutex);
    ZipStream stream(*archive_, index_, address_);
    const auto wanted = static_cast<Index>(prefix_.size());
    if (stream.read(wanted, prefix_.data()) != wanted) refuse_size("less");
    if (wanted == size() && !stream.at_end()) refuse_size("more");
  }

  void read(Index offset, Index count, void* out) const override {
    if (offset + count <= static_cast<Index>(prefix_.size())) {
      std::copy_n(prefix_.data() + offset, count, static_cast<char*>(out));
      return;
    }
    unpacked().read(offset, count, out);
  }

 private:
  [[noreturn]] void refuse_size(const char* how) const {
    throw Error(Failure::input, address_ + " unpacks to " + how + " than the " +
                                    std::to_string(size()) + " bytes that its archive declares");
  }

  const FileBytes& unpacked() const {
    const std::lock_guard<std::mutex> lock(archive_->mutex);
    if (!unpacked_) unpacked_.emplace(unpack(), address_, size());
    return *unpacked_;
  }

  Descriptor unpack() const {
    const std::string folder = temporary_folder(tmpdir_);
    require_room(folder);
    const UnnamedFile temporary(folder);
    ZipStream stream(*archive_, index_, address_);
    const Buffer<char> buffer(piece_size);
    for (Index done = 0; done < size();) {
      const Index wanted = std::min(piece_size, size() - done);
      if (stream.read(wanted, buffer.data()) != wanted) refuse_size("less");
      const int failed =
          write_fully(temporary.descriptor(), buffer.data(), static_cast<std::size_t>(wanted));
      if (failed != 0) refuse(failed);
      done += wanted;
    }
    if (!stream.at_end()) refuse_size("more");
    return duplicate(temporary);
  }

  void require_room(const std::string& folder) const {
    struct statvfs status {};
    if (statvfs(folder.c_str(), &status) != 0) return;
    const auto blocks = static_cast<Index>(status.f_bavail);
    if (size() / std::max<Index>(1, static_cast<Index>(status.f_frsize)) > blocks) refuse(ENOSPC);
  }

  [[noreturn]] void refuse(int error_number) const {
    throw Error(Failure::output,
                address_ + " cannot be unpacked (" + std::to_string(size()) + " bytes) in " +
                    temporary_folder(tmpdir_) + ": " + system_reason(error_number),
                "name another folder with --tmpdir or TMPDIR");
  }

  Descriptor duplicate(const UnnamedFile& temporary) const {
    Descriptor copy(fcntl(temporary.descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!copy) refuse(errno);
    return copy;
  }

  std::shared_ptr<ZipArchive> archive_;
  zip_uint64_t index_;
  std::string address_;
  std::string tmpdir_;
  std::vector<char> prefix_;
  mutable std::optional<FileBytes> unpacked_;
};

}  // namespace

std::shared_ptr<const Bytes> open_stored_member(std::shared_ptr<ZipArchive> archive,
                                                const ZipEntry& entry, const std::string& address) {
  return std::make_shared<StoredMember>(std::move(archive), entry, address);
}

std::shared_ptr<const Bytes> open_deflated_member(std::shared_ptr<ZipArchive> archive,
                                                  const ZipEntry& entry, const std::string& address,
                                                  const std::string& tmpdir) {
  return std::make_shared<DeflatedMember>(std::move(archive), entry, address, tmpdir);
}

}  // namespace attn::io
