#pragma once

#include <hdf5.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

// The C interface of HDF5, made safe: every call sequence under one lock, every identifier owned,
// every status looked at. Internal to lib/io.

namespace attn::io::h5 {

/// Held around every sequence of HDF5 calls: Debian's serial build is not re-entrant. Locks may
/// nest, since owners of identifiers take one too when they close. Also sees to it that the
/// library is set up as this toolkit wants it.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

/// What HDF5 is about to look into, for the message of a crash: to be said under a Lock. Kept until
/// the next; cut after some 500 bytes.
void set_subject(const std::string& address) noexcept;

/// Whether the calling thread is inside a Lock, and the subject last set: for signal handlers.
bool in_library() noexcept;
const char* subject() noexcept;

/// While it is there, failures are expected and HDF5 prints none, whatever show_hdf5_errors says.
/// May nest.
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
  /// `leak`, where given, must outlive the handle: while it is true the identifier is left open.
  Handle(hid_t id, Close close, const bool* leak = nullptr) noexcept
      : id_(id), close_(close), leak_(leak) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_), leak_(other.leak_) {}
  Handle& operator=(Handle&& other) noexcept;

  hid_t get() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ >= 0; }

  /// Closes now. False where HDF5 says that this failed.
  bool reset() noexcept;

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
  const bool* leak_ = nullptr;
};

/// Why the last HDF5 call failed, from its error stack.
struct Reason {
  std::string text;        ///< of the innermost error, or the system's word for it
  int error_number = 0;    ///< the system's, 0 where no system call failed
  bool writing = false;    ///< a file could not be written (rather than read)
  bool locking = false;    ///< a file is locked by somebody else
  bool truncated = false;  ///< a file is shorter than it says
};

/// To be asked straight after the failure: the next call clears the stack.
Reason last_reason();

/// A property list, dataspace or datatype: things in memory, whose making only fails where memory
/// is short or the calling code is wrong. Throws std::runtime_error naming `what`.
Handle made(hid_t id, Handle::Close close, const char* what);

/// The same for a status.
void require(herr_t status, const char* what);

Handle properties(hid_t of_class);
Handle copied_type(hid_t type);

/// Of `shape`; a scalar's has no axes.
Handle dataspace(const std::vector<hsize_t>& shape);

/// The lengths of its axes: none of a scalar's, nor where it has no values at all.
std::vector<hsize_t> extents_of(hid_t space);

/// One entry of a group.
struct Link {
  std::string name;
  H5L_type_t type;
};

/// All entries, sorted by name, or by age in a group that keeps track of that where `by_age` asks
/// for it. Throws Error(input) naming `what`.
std::vector<Link> links(hid_t group, const std::string& what, bool by_age = false);

/// Whether every link along `path` is there; the last may still lead nowhere.
bool linked(hid_t location, const std::string& path);

enum class Kind { absent, group, dataset, other };

/// The same for two objects if and only if they are one, whatever links lead to them.
std::string identity(hid_t object);

/// What `path` leads to from `location` in a file that is being written; absent also where a link
/// leads nowhere. Links of inputs are followed by open_object.
Kind kind_of(hid_t location, const std::string& path);

}  // namespace attn::io::h5
