#pragma once

#include <hdf5.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

// A safe interface to the C library of HDF5: every sequence of calls runs under one lock, every
// identifier has an owner, and every status is checked. Internal to lib/io.

namespace attn::io::h5 {

/// Held during every sequence of HDF5 calls: Debian's serial build is not re-entrant. Locks may
/// nest, since owners of identifiers also take one when they close. The first lock configures the
/// library.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

/// Sets the name of the object that HDF5 is about to read, for the message after a crash. Called
/// under a Lock. Kept until the next call; cut to about 500 bytes.
void set_subject(const std::string& address) noexcept;

/// Whether the calling thread holds a Lock, and the subject set last. For signal handlers.
bool in_library() noexcept;
const char* subject() noexcept;

/// While one exists, failures are expected and HDF5 prints no errors, whatever show_hdf5_errors
/// says. May nest.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  H5E_auto2_t before_ = nullptr;
  void* data_ = nullptr;
};

/// Owns one identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  /// If `leak` is given, it must outlive the handle: while it is true the identifier is left open.
  Handle(hid_t id, Close close, const bool* leak = nullptr) noexcept
      : id_(id), close_(close), leak_(leak) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_), leak_(other.leak_) {}
  Handle& operator=(Handle&& other) noexcept;

  hid_t get() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ >= 0; }

  /// Closes now. Returns false if HDF5 reports a failure.
  bool reset() noexcept;

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
  const bool* leak_ = nullptr;
};

/// The reason why the last HDF5 call failed, from its error stack.
struct Reason {
  std::string text;        ///< the innermost error, or the system's message for it
  int error_number = 0;    ///< errno of the system call, 0 if none failed
  bool writing = false;    ///< whether writing a file failed (rather than reading)
  bool locking = false;    ///< whether another process has locked the file
  bool truncated = false;  ///< whether the file is shorter than its header says
  bool unclosed = false;   ///< whether a writer has marked the file and not closed it yet
};

/// To be called directly after the failure: the next call clears the stack.
Reason last_reason();

/// Takes ownership of a property list, dataspace or datatype. These live in memory, so making them
/// fails only if memory is short or the calling code is wrong. Throws std::runtime_error naming
/// `what`.
Handle made(hid_t id, Handle::Close close, const char* what);

/// The same check for a status.
void require(herr_t status, const char* what);

Handle properties(hid_t of_class);
Handle copied_type(hid_t type);

/// A dataspace of this shape; without axes it is a scalar.
Handle dataspace(const std::vector<hsize_t>& shape);

/// The lengths of the axes; empty for a scalar or a null dataspace.
std::vector<hsize_t> extents_of(hid_t space);

/// One entry of a group.
struct Link {
  std::string name;
  H5L_type_t type;
};

/// All entries, sorted by name; with `by_age`, by age if the group keeps track of it. Throws
/// Error(input) naming `what`.
std::vector<Link> links(hid_t group, const std::string& what, bool by_age = false);

/// Whether every link along `path` exists; the last may still have no target.
bool linked(hid_t location, const std::string& path);

enum class Kind { absent, group, dataset, other };

/// A string that is equal for two identifiers if and only if they denote the same object, whatever
/// links lead to it.
std::string identity(hid_t object);

/// The kind of the object that `path` leads to from `location` in a file being written; also absent
/// if a link has no target. Links of inputs are followed by open_object.
Kind kind_of(hid_t location, const std::string& path);

}  // namespace attn::io::h5
