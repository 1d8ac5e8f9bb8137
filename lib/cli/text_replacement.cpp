#include "cli/text_replacement.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "system/uninterrupted.hpp"

namespace attn::cli {
namespace {

// The work of undo_texts(). Signal handlers read it; therefore it is changed, together with the
// files that it describes, only in Uninterrupted sections.
enum class State {
  nothing,
  temporary,  // remove `temporary`
  created,    // remove `target`
  exchanged,  // move `temporary`, the old file, back to `target`
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

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : file.substr(0, slash);
}

// A new file in the folder, open; `name` becomes its path.
int make_file(const std::string& folder, std::string& name) {
  name = folder + "/.attn-text-XXXXXX";
  return mkostemp(name.data(), O_CLOEXEC);
}

}  // namespace

TextReplacement::TextReplacement(std::string target) : target_(std::move(target)) {
  const std::string folder = folder_of(target_);
  descriptor_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor_ >= 0 && access(own_link().c_str(), F_OK) == 0) return;
  if (descriptor_ >= 0) close(descriptor_);
  const Uninterrupted section;
  std::string name;
  descriptor_ = make_file(folder, name);
  if (descriptor_ < 0) return;
  keep_path(name, undo.temporary);
  undo.state = State::temporary;
}

TextReplacement::~TextReplacement() {
  {
    const Uninterrupted section;
    undo_texts();
  }
  if (descriptor_ >= 0) close(descriptor_);
}

bool TextReplacement::take_name() {
  const Uninterrupted section;
  if (!have_a_name() || rename(undo.temporary.data(), target_.c_str()) != 0) return false;
  undo.state = State::nothing;
  return true;
}

bool TextReplacement::take_name_for_now() {
  const Uninterrupted section;
  if (!have_a_name()) return false;
  keep_path(target_, undo.target);
  const char* temporary = undo.temporary.data();
  // An exchange needs no second name for the old file, and fails if it may not be replaced.
  if (renameat2(AT_FDCWD, temporary, AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    undo.state = State::exchanged;
    return true;
  }
  if (errno != ENOENT && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return false;
  struct stat status = {};
  if (lstat(target_.c_str(), &status) == 0) return move_old_aside();
  if (rename(temporary, target_.c_str()) != 0) return false;
  undo.state = State::created;
  return true;
}

// Names the file: rename(2) can replace a target, but linkat(2) cannot.
bool TextReplacement::have_a_name() {
  if (undo.state.load() == State::temporary) return true;
  std::string name;
  const int placeholder = make_file(folder_of(target_), name);
  if (placeholder < 0) return false;
  close(placeholder);
  unlink(name.c_str());
  if (linkat(AT_FDCWD, own_link().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return false;
  }
  keep_path(name, undo.temporary);
  undo.state = State::temporary;
  return true;
}

// Used on file systems that cannot exchange two files.
bool TextReplacement::move_old_aside() {
  std::string aside;
  const int placeholder = make_file(folder_of(target_), aside);
  if (placeholder < 0) return false;
  close(placeholder);
  if (rename(target_.c_str(), aside.c_str()) != 0) {
    const int failure = errno;
    unlink(aside.c_str());
    errno = failure;
    return false;
  }
  if (rename(undo.temporary.data(), target_.c_str()) != 0) {
    const int failure = errno;
    rename(aside.c_str(), target_.c_str());
    errno = failure;
    return false;
  }
  keep_path(aside, undo.temporary);
  undo.state = State::exchanged;
  return true;
}

std::string TextReplacement::own_link() const {
  return "/proc/self/fd/" + std::to_string(descriptor_);
}

void keep_texts() noexcept {
  const State before = undo.state.load();
  if (before == State::exchanged) undo.state = State::temporary;
  if (before == State::created) undo.state = State::nothing;
}

void undo_texts() noexcept {
  switch (undo.state.exchange(State::nothing)) {
    case State::nothing:
      break;
    case State::temporary:
      unlink(undo.temporary.data());
      break;
    case State::created:
      unlink(undo.target.data());
      break;
    case State::exchanged:
      rename(undo.temporary.data(), undo.target.data());
      break;
  }
}

}  // namespace attn::cli
