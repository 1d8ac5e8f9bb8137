#include "io/hdf5/h5.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>

#include "attnkit/error.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "io/output.hpp"
#include "system/alternate_stack.hpp"
#include "system/descriptor.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

// Besides the signal handlers' list, the only global state of lib/io, since HDF5 itself is global.
std::recursive_mutex library_mutex;
bool show_errors = false;

// Read by signal handlers.
thread_local int locks_held = 0;
char subject_text[512] = "an input";

// HDF5 reads the variable once, and obeys it rather than the settings of a file. Anything but FALSE
// asks for the locks of inputs that are the default; of outputs, which are locked already (see
// system/held_temporary.hpp), they would fail.
void keep_locks_from_outputs() {
  const char* const wanted = std::getenv("HDF5_USE_FILE_LOCKING");
  if (wanted == nullptr || std::strcmp(wanted, "FALSE") == 0 || std::strcmp(wanted, "0") == 0)
    return;
  unsetenv("HDF5_USE_FILE_LOCKING");
}

// HDF5 would search the folders in these variables before the folder of the file that names another
// one, though only the latter's have been looked at (io/input_files.hpp). It reads two of them as
// soon as it begins.
void forget_prefixes() {
  for (const char* const name : {"HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX", "HDF5_EXTFILE_PREFIX"}) {
    unsetenv(name);
  }
}

bool begin() {
  keep_locks_from_outputs();
  forget_prefixes();
  // HDF5 must not close files at exit by itself: it would write to files that failed before.
  return H5dont_atexit() >= 0;
}

void apply_error_printing() {
  if (show_errors) {
    H5Eset_auto2(H5E_DEFAULT, reinterpret_cast<H5E_auto2_t>(H5Eprint2), nullptr);
  } else {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
}

}  // namespace

void show_hdf5_errors(bool show) {
  const h5::Lock lock;
  show_errors = show;
  apply_error_printing();
}

bool hdf5_is_busy() noexcept { return h5::in_library(); }

void keep_hdf5_over_forks() {
  pthread_atfork([] { library_mutex.lock(); }, [] { library_mutex.unlock(); },
                 [] {
                   // Its owner has another number in the child, which could not release it.
                   new (&library_mutex) std::recursive_mutex();
                   locks_held = 0;
                 });
}

std::string hdf5_version() {
  const h5::Lock lock;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

namespace h5 {

Lock::Lock() {
  library_mutex.lock();
  if (locks_held++ == 0) enter_library();
  beat();
  [[maybe_unused]] static const bool begun = begin();
  // In a thread-safe build of HDF5, each thread has its own setting.
  thread_local bool first = true;
  if (!std::exchange(first, false)) return;
  apply_error_printing();
  ensure_alternate_stack();  // damaged files can make HDF5 recurse until the stack overflows
}

Lock::~Lock() {
  beat();
  if (--locks_held == 0) leave_library();
  library_mutex.unlock();
}

void set_subject(const std::string& address) noexcept {
  subject_text[address.copy(subject_text, sizeof(subject_text) - 1)] = '\0';
}

bool in_library() noexcept { return locks_held > 0; }
const char* subject() noexcept { return subject_text; }

Quiet::Quiet() {
  H5Eget_auto2(H5E_DEFAULT, &before_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Quiet::~Quiet() { H5Eset_auto2(H5E_DEFAULT, before_, data_); }

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this == &other) return *this;
  reset();
  id_ = std::exchange(other.id_, H5I_INVALID_HID);
  close_ = other.close_;
  leak_ = other.leak_;
  return *this;
}

bool Handle::reset() noexcept {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  if (id < 0) return true;
  const Lock lock;
  if (leak_ != nullptr && *leak_) return true;
  return close_(id) >= 0;
}

namespace {

/// The errno of the failed system call, which HDF5 reports only in words.
int error_number_in(const char* description) {
  const char* found = std::strstr(description, "errno = ");
  return found == nullptr ? 0 : std::atoi(found + std::strlen("errno = "));
}

herr_t look_at(unsigned, const H5E_error2_t* error, void* data) {
  auto& found = *static_cast<Reason*>(data);
  const char* description = error->desc == nullptr ? "" : error->desc;
  // The walk begins at the innermost entry.
  if (found.text.empty()) found.text = description;
  if (found.error_number == 0) found.error_number = error_number_in(description);
  found.writing |= error->min_num == H5E_WRITEERROR && error->maj_num == H5E_IO;
  found.locking |= error->min_num == H5E_CANTLOCKFILE;
  found.truncated |= error->min_num == H5E_TRUNCATED;
  // HDF5 has no code of its own for this.
  found.unclosed |= std::strstr(description, "already open for write") != nullptr ||
                    std::strstr(description, "SWMR read access flag") != nullptr;
  return 0;
}

}  // namespace

Reason last_reason() {
  Reason found;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, look_at, &found);
  if (found.error_number != 0) found.text = system_reason(found.error_number);
  if (found.text.empty()) found.text = "HDF5 gives no reason";
  return found;
}

Handle made(hid_t id, Handle::Close close, const char* what) {
  beat();
  if (id < 0) throw std::runtime_error(std::string("HDF5: ") + what + ": " + last_reason().text);
  return Handle(id, close);
}

void require(herr_t status, const char* what) {
  beat();
  if (status < 0) {
    throw std::runtime_error(std::string("HDF5: ") + what + ": " + last_reason().text);
  }
}

Handle properties(hid_t of_class) { return made(H5Pcreate(of_class), H5Pclose, "properties"); }

Handle copied_type(hid_t type) { return made(H5Tcopy(type), H5Tclose, "datatype"); }

Handle dataspace(const std::vector<hsize_t>& shape) {
  if (shape.empty()) return made(H5Screate(H5S_SCALAR), H5Sclose, "dataspace");
  return made(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose,
              "dataspace");
}

std::vector<hsize_t> extents_of(hid_t space) {
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space))));
  require(H5Sget_simple_extent_dims(space, extents.data(), nullptr), "dataspace");
  return extents;
}

namespace {

herr_t add_link(hid_t, const char* name, const H5L_info_t* info, void* data) {
  beat();
  try {
    static_cast<std::vector<Link>*>(data)->push_back({name, info->type});
    return 0;
  } catch (...) {
    return -1;  // an exception must not pass through C code
  }
}

bool knows_age(hid_t group) {
  const Handle creation(H5Gget_create_plist(group), H5Pclose);
  unsigned flags = 0;
  return creation && H5Pget_link_creation_order(creation.get(), &flags) >= 0 &&
         (flags & H5P_CRT_ORDER_INDEXED) != 0;
}

}  // namespace

std::vector<Link> links(hid_t group, const std::string& what, bool by_age) {
  std::vector<Link> found;
  const H5_index_t order = by_age && knows_age(group) ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  if (H5Literate(group, order, H5_ITER_INC, nullptr, add_link, &found) < 0) {
    throw Error(Failure::input, what + " cannot be listed: " + last_reason().text);
  }
  return found;
}

bool linked(hid_t location, const std::string& path) {
  const Quiet quiet;
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    const std::string parent = path.substr(0, end);
    if (H5Lexists(location, parent.c_str(), H5P_DEFAULT) <= 0) return false;
    if (H5Oexists_by_name(location, parent.c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return path == "/" || path == "." || H5Lexists(location, path.c_str(), H5P_DEFAULT) > 0;
}

std::string identity(hid_t object) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  require(H5Oget_info3(object, &info, H5O_INFO_BASIC), "object");
  const auto& place = info.token;
#else
  H5O_info_t info;
  require(H5Oget_info2(object, &info, H5O_INFO_BASIC), "object");
  const haddr_t place = info.addr;
#endif
  std::string bytes(sizeof(info.fileno) + sizeof(place), '\0');
  std::memcpy(bytes.data(), &info.fileno, sizeof(info.fileno));
  std::memcpy(bytes.data() + sizeof(info.fileno), &place, sizeof(place));
  return bytes;
}

Kind kind_of(hid_t location, const std::string& path) {
  const Quiet quiet;
  if (path.empty() || !linked(location, path)) return Kind::absent;
  const Handle object(H5Oopen(location, path.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) return Kind::absent;
  switch (H5Iget_type(object.get())) {
    case H5I_GROUP:
      return Kind::group;
    case H5I_DATASET:
      return Kind::dataset;
    default:
      return Kind::other;
  }
}

}  // namespace h5
}  // namespace attn::io
