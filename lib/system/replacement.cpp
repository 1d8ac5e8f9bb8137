#include "system/replacement.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "system/paths.hpp"
#include "system/uninterrupted.hpp"
#include "system/unnamed_file.hpp"

namespace attn {
namespace {

constexpr const char* text_prefix = ".attn-text-";

// The task of undo_replacement(). Signal handlers read it, so it changes only in Uninterrupted
// sections, together with the files that it describes.
enum class State {
  nothing,
  created,    // remove `target`
  exchanged,  // `temporary` is the old file: rename it to `target`
};
struct Undo {
  std::atomic<State> state{State::nothing};
  std::array<char, PATH_MAX> temporary{};
  std::array<char, PATH_MAX> target{};
};
static_assert(std::atomic<State>::is_always_lock_free);
Undo undo;

void keep_path(const std::string& path, std::array<char, PATH_MAX>& copy) {
  // The system has accepted this path, and it accepts no longer one.
  const std::size_t length = std::min(path.size(), copy.size() - 1);
  std::copy_n(path.c_str(), length, copy.begin());
  copy[length] = '\0';
}

// rename(2) that never replaces; false with errno set if it fails.
bool rename_without_replacing(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return false;
  // Most file systems without this flag support hard links.
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0;
  if (errno == EEXIST) return false;
  struct stat status {};
  if (lstat(to.c_str(), &status) == 0) {
    errno = EEXIST;
    return false;
  }
  return rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

bool take_name(TemporaryName& temporary, const std::string& target, bool replace) {
  const Uninterrupted section;
  const std::string& from = temporary.path();
  const bool taken =
      replace ? rename(from.c_str(), target.c_str()) == 0 : rename_without_replacing(from, target);
  if (!taken) return false;
  temporary.release();
  keep_replacement();
  return true;
}

Replacement::Replacement(std::string target)
    : target_(std::move(target)),
      folder_(folder_of(target_)),
      descriptor_(open_unnamed(folder_, text_prefix, name_)) {}

Replacement::~Replacement() {
  const Uninterrupted section;
  undo_replacement();
  name_.remove();
}

bool Replacement::take_name(bool replace) {
  return have_a_name() && attn::take_name(name_, target_, replace);
}

bool Replacement::take_name_for_now() {
  const Uninterrupted section;
  if (!have_a_name()) return false;
  const std::string temporary = name_.path();
  keep_path(temporary, undo.temporary);
  keep_path(target_, undo.target);
  // An exchange needs no second name for the old file, and fails if it may not be replaced.
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    undo.state = State::exchanged;
    return true;
  }
  if (errno != ENOENT && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return false;
  struct stat status = {};
  if (lstat(target_.c_str(), &status) == 0) return move_old_aside();
  if (rename(temporary.c_str(), target_.c_str()) != 0) return false;
  undo.state = State::created;
  name_.release();
  return true;
}

// Names an unnamed file, because rename(2) can replace a target and linkat(2) cannot.
bool Replacement::have_a_name() {
  if (name_.path().empty()) name_ = name_unnamed(descriptor_.get(), folder_, text_prefix);
  return !name_.path().empty();
}

// For file systems that cannot exchange two files.
bool Replacement::move_old_aside() {
  TemporaryName placeholder = make_temporary(folder_, text_prefix, [](const std::string& path) {
    return static_cast<bool>(open_descriptor(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  });
  if (placeholder.path().empty()) return false;
  const std::string aside = placeholder.path();
  // From here on the placeholder's name is for the old file, which must not be removed as a
  // temporary.
  placeholder.release();
  if (rename(target_.c_str(), aside.c_str()) != 0) {
    const int failure = errno;
    unlink(aside.c_str());
    errno = failure;
    return false;
  }
  if (rename(name_.path().c_str(), target_.c_str()) != 0) {
    const int failure = errno;
    rename(aside.c_str(), target_.c_str());
    errno = failure;
    return false;
  }
  keep_path(aside, undo.temporary);
  undo.state = State::exchanged;
  name_.release();
  name_ = TemporaryName(aside);
  return true;
}

void keep_replacement() noexcept { undo.state = State::nothing; }

void undo_replacement() noexcept {
  switch (undo.state.exchange(State::nothing)) {
    case State::nothing:
      break;
    case State::created:
      unlink(undo.target.data());
      break;
    case State::exchanged:
      rename(undo.temporary.data(), undo.target.data());
      break;
  }
}

}  // namespace attn
