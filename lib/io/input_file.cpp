#include "io/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "attnkit/error.hpp"
#include "io/address.hpp"
#include "io/array_skeleton.hpp"
#include "io/arrays/foreign_format.hpp"
#include "io/arrays/table_file.hpp"
#include "system/descriptor.hpp"
#include "system/system_reason.hpp"
#include "system/unnamed_file.hpp"

namespace attn::io {
namespace {

bool has_signature_at(int descriptor, const std::string& label, off_t at) {
  constexpr std::array<unsigned char, 8> signature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  std::array<unsigned char, 8> found{};
  return read_start(descriptor, label, found.data(), found.size(), at) == 8 && found == signature;
}

/// HDF5's format signature stands at 0 or, after a user block, at 512, 1024, 2048, ...
bool has_signature(int descriptor, const std::string& label, off_t size) {
  for (off_t at = 0; at + 8 <= size; at = at == 0 ? 512 : 2 * at) {
    if (has_signature_at(descriptor, label, at)) return true;
  }
  return false;
}

[[noreturn]] void refuse_file(const std::string& label, const h5::Reason& why) {
  if (why.locking) {
    throw Error(Failure::input, label + " is locked: " + why.text,
                "another program has it open for writing; on file systems without locks set "
                "HDF5_USE_FILE_LOCKING=FALSE");
  }
  if (why.unclosed) {
    throw Error(Failure::input,
                label +
                    " is being written by another process, or one that was killed has left it "
                    "open",
                "wait until it is closed; if nobody writes it any more, h5clear -s FILE marks it "
                "as closed");
  }
  if (why.truncated) {
    throw Error(Failure::input, label + " is truncated: it is shorter than its header says");
  }
  if (why.error_number == EIO) {
    throw Error(Failure::input, label + " cannot be read: " + why.text);
  }
  throw Error(Failure::input, label + " is a damaged HDF5 file: " + why.text);
}

/// The bytes of a file that HDF5 has open; null if HDF5 does not read it as one plain file.
std::shared_ptr<const Bytes> bytes_of(hid_t file, const std::string& label) {
  const h5::Handle access = h5::made(H5Fget_access_plist(file), H5Pclose, "properties");
  void* found = nullptr;
  if (H5Pget_driver(access.get()) != H5FD_SEC2 ||
      H5Fget_vfd_handle(file, H5P_DEFAULT, &found) < 0) {
    return {};
  }
  // HDF5's own, so that its lock on the file stays as it is.
  Descriptor again(fcntl(*static_cast<const int*>(found), F_DUPFD_CLOEXEC, 0));
  struct stat status {};
  if (!again || fstat(again.get(), &status) != 0) return {};
  return std::make_shared<FileBytes>(std::move(again), label, status.st_size);
}

/// HDF5 opens `path`; messages call it `label`.
InputFile open_hdf5(const std::string& path, const std::string& label, bool lock_file) {
  const h5::Lock lock;
  h5::set_subject(label);
  const h5::Handle access = h5::properties(H5P_FILE_ACCESS);
  // Our own temporary needs no locks, which its file system may not support.
  if (!lock_file) h5::require(H5Pset_file_locking(access.get(), false, true), "properties");
  InputFile opened;
  opened.label = label;
  opened.handle = h5::Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!opened.handle) {
    const h5::Reason why = h5::last_reason();
    // A copy of a stream may have been taken between two writes.
    if (why.unclosed && lock_file) {
      const h5::Quiet expected;
      opened.handle = h5::Handle(
          H5Fopen(path.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, access.get()), H5Fclose);
    }
    if (!opened.handle) refuse_file(label, why);
    opened.is_written = true;
  }
  opened.bytes = bytes_of(opened.handle.get(), label);
  return opened;
}

void check_content(int descriptor, const std::string& label) {
  struct stat status {};
  fstat(descriptor, &status);
  if (status.st_size == 0) throw Error(Failure::input, label + " is empty");
  if (has_signature(descriptor, label, status.st_size)) return;
  std::array<unsigned char, 16> start{};
  const std::size_t got = read_start(descriptor, label, start.data(), start.size());
  const std::string other = array_format(start.data(), got);
  if (!other.empty()) {
    throw Error(Failure::input, label + " is " + other + ", expected an HDF5 file in a stream",
                "name the file itself, or convert it to a bundle with tensor-convert");
  }
  if (const ForeignFormat foreign = foreign_format(start.data(), got); !foreign.kind.empty()) {
    throw Error(Failure::input,
                label + " is " + foreign.kind + ", expected HDF5, .npy, .npz or .safetensors",
                foreign.hint);
  }
  const bool text =
      std::all_of(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(got),
                  [](unsigned char c) { return c >= ' ' || (c >= '\t' && c <= '\r'); });
  throw Error(
      Failure::input, label + " is not an HDF5 file",
      text ? "it is text; tensor-convert reads matrices of numbers from files whose names end in "
             ".csv or .tsv"
           : "");
}

/// A table of text, for a tool that reads such tables.
std::shared_ptr<const ArrayFile> open_table(int descriptor, const std::string& label,
                                            const std::string& tmpdir,
                                            const std::function<void(const TableNote&)>& on_table) {
  if (!on_table) {
    throw Error(Failure::input,
                label + " is a table of text, expected HDF5, .npy, .npz or .safetensors",
                "make a bundle of it: tensor-convert NAME=" + label + " -o NAME.h5");
  }
  return read_table(descriptor, label, tmpdir, on_table);
}

void spool(int from, int to, const std::string& label, const std::string& folder) {
  std::size_t bytes = 0;
  const CopyFailure failure = copy_to_end(from, to, bytes);
  if (failure.writing) {
    throw Error(
        Failure::output,
        label + " cannot be spooled in " + folder + ": " + system_reason(failure.error_number),
        "name another folder with --tmpdir or TMPDIR");
  }
  if (failure.error_number != 0) {
    throw Error(Failure::input, label + " cannot be read: " + system_reason(failure.error_number));
  }
  if (bytes == 0) {
    throw Error(Failure::input, label + " is empty",
                "the command before it in the pipe has probably failed");
  }
}

InputFile open_stream(int descriptor, const std::string& label, const std::string& tmpdir) {
  if (isatty(descriptor) != 0) {
    throw Error(Failure::usage, label + " is a terminal, expected a bundle",
                "name an INPUT file, or pipe a bundle in");
  }
  struct stat status {};
  fstat(descriptor, &status);
  // /dev/null is empty.
  if (S_ISCHR(status.st_mode) && status.st_rdev != makedev(1, 3)) {
    throw Error(Failure::input, label + " is a device, expected a bundle");
  }
  const std::string folder = temporary_folder(tmpdir);
  UnnamedFile temporary(folder);
  spool(descriptor, temporary.descriptor(), label, folder);
  check_content(temporary.descriptor(), label);
  InputFile opened;
  temporary.with_name([&](const std::string& path) { opened = open_hdf5(path, label, false); });
  opened.is_stream = true;
  return opened;
}

/// "x.h5:/layer1" for "x.h5/layer1", if x.h5 is a file.
std::string hint_on_path(const std::string& file) {
  for (std::size_t at = file.rfind('/'); at != std::string::npos && at > 0;
       at = file.rfind('/', at - 1)) {
    struct stat status {};
    if (stat(file.substr(0, at).c_str(), &status) != 0) continue;
    return S_ISREG(status.st_mode)
               ? "a place in a file stands after a colon: " + file.substr(0, at) + ":" +
                     file.substr(at)
               : "";
  }
  return "";
}

/// Names the file in a folder, if only one is of a kind that is read.
std::string hint_on_folder(const std::string& folder) {
  const std::set<std::string> endings = {".h5", ".hdf5", ".npy", ".npz", ".safetensors"};
  std::string only;
  std::error_code failed;
  for (auto entry = std::filesystem::directory_iterator(folder, failed);
       !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    if (endings.count(entry->path().extension()) == 0) continue;
    if (!only.empty()) return "";
    only = entry->path().string();
  }
  return only.empty() || failed ? "" : "it has one: " + only;
}

}  // namespace

std::string InputFile::array_at(const std::string& path) const {
  if (!arrays || arrays->is_single()) return {};
  if (const auto found = paths.find(path); found != paths.end()) return found->second;
  if (path.empty() || arrays->has(path)) return path;
  const auto found = by_slashes.find(with_slashes(path));
  return found == by_slashes.end() ? std::string() : found->second;
}

InputFile open_input_file(const std::string& file, const std::string& tmpdir,
                          const std::function<void(const TableNote&)>& on_table) {
  if (file == "-") return open_stream(STDIN_FILENO, "standard input", tmpdir);
  Descriptor descriptor = open_descriptor(file, O_RDONLY | O_NOCTTY);
  if (!descriptor) {
    // An address with a missing file could not be split; its path is cut off here.
    if (errno == ENOENT) {
      throw Error(Failure::input, "no such file: " + file.substr(0, file.find(":/")));
    }
    const int error_number = errno;
    throw Error(Failure::input, "cannot open " + file + ": " + system_reason(error_number),
                error_number == ENOTDIR ? hint_on_path(file) : "");
  }
  struct stat status {};
  fstat(descriptor.get(), &status);
  if (S_ISDIR(status.st_mode)) {
    throw Error(Failure::input, file + " is a folder, expected a file", hint_on_folder(file));
  }
  if (!S_ISREG(status.st_mode)) return open_stream(descriptor.get(), file, tmpdir);
  if (status.st_size > 0 && !has_signature_at(descriptor.get(), file, 0)) {
    auto arrays = open_array_file(descriptor.get(), file, tmpdir);
    if (!arrays && is_called_table(file)) {
      arrays = open_table(descriptor.get(), file, tmpdir, on_table);
    }
    if (arrays) {
      InputFile opened;
      opened.label = file;
      if (!arrays->is_single()) {
        ArraySkeleton skeleton = array_skeleton(*arrays, file);
        opened.handle = std::move(skeleton.file);
        opened.paths = std::move(skeleton.paths);
        opened.flat = skeleton.flat;
        for (const auto& [path, name] : opened.paths) {
          opened.by_slashes.emplace(with_slashes(path), name);
        }
      }
      opened.arrays = std::move(arrays);
      return opened;
    }
  }
  check_content(descriptor.get(), file);
  // If HDF5 locks with fcntl, closing this descriptor later would drop the lock.
  descriptor.reset();
  return open_hdf5(file, file, true);
}

}  // namespace attn::io
