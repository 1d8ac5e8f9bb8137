#include "system/temporary.hpp"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "system/replacement.hpp"

namespace attn {
namespace {

// Read by a signal handler, hence of fixed size, without allocation, and with lock-free atomics
// only.
struct Slot {
  enum State { vacant, changing, taken };
  std::atomic<int> state{vacant};
  std::array<char, PATH_MAX> path{};
};
static_assert(std::atomic<int>::is_always_lock_free);
std::array<Slot, 32> slots;

/// Returns -1 if all slots are taken or the path is too long for any file: then only its owner
/// removes the file, not a signal.
int register_path(const std::string& path) noexcept {
  if (path.size() >= PATH_MAX) return -1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = Slot::vacant;
    if (!slots[i].state.compare_exchange_strong(expected, Slot::changing)) continue;
    std::memcpy(slots[i].path.data(), path.c_str(), path.size() + 1);
    slots[i].state.store(Slot::taken);
    return static_cast<int>(i);
  }
  return -1;
}

std::string random_letters(std::size_t count) {
  static constexpr char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  // Names must differ from those of other processes, so a fixed seed would not do.
  std::random_device source;
  std::uniform_int_distribution<std::size_t> any(0, sizeof(alphabet) - 2);
  std::string letters;
  while (letters.size() < count) letters += alphabet[any(source)];
  return letters;
}

}  // namespace

TemporaryName::TemporaryName(const std::string& path) : path_(path), slot_(register_path(path)) {}

TemporaryName::TemporaryName(TemporaryName&& other) noexcept
    : path_(std::exchange(other.path_, {})), slot_(std::exchange(other.slot_, -1)) {}

TemporaryName& TemporaryName::operator=(TemporaryName&& other) noexcept {
  if (this == &other) return *this;
  remove();
  path_ = std::exchange(other.path_, {});
  slot_ = std::exchange(other.slot_, -1);
  return *this;
}

void TemporaryName::remove() noexcept {
  if (!path_.empty()) unlink(path_.c_str());
  release();
}

void TemporaryName::release() noexcept {
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].state.store(Slot::vacant);
  slot_ = -1;
  path_.clear();
}

TemporaryName make_temporary(const std::string& folder, const std::string& prefix,
                             const std::function<bool(const std::string&)>& create) {
  constexpr int attempts = 100;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    TemporaryName name(folder + "/" + prefix + random_letters(6) + ".tmp");
    if (create(name.path())) return name;
    const int failure = errno;
    name.release();
    errno = failure;
    if (failure != EEXIST) break;
  }
  return {};
}

std::string temporary_folder(const std::string& given) {
  if (!given.empty()) return given;
  const char* variable = std::getenv("TMPDIR");
  return variable != nullptr && *variable != '\0' ? variable : "/tmp";
}

void remove_temporaries() noexcept {
  // First, because it may restore an old file that has the name of a temporary until then.
  undo_replacement();
  for (const Slot& slot : slots) {
    if (slot.state.load() == Slot::taken) unlink(slot.path.data());
  }
}

}  // namespace attn
