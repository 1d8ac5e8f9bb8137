#include "system/held_temporary.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "system/uninterrupted.hpp"

namespace attn {
namespace {

constexpr int new_file = O_RDWR | O_CREAT | O_EXCL;

Descriptor random_temporary(const std::string& folder, const std::string& name, unsigned mode,
                            TemporaryName& temporary) {
  constexpr std::size_t room = NAME_MAX - sizeof("..XXXXXX.tmp");
  Descriptor opened;
  temporary = make_temporary(folder, "." + name.substr(0, room) + ".", [&](const auto& path) {
    opened = open_descriptor(path, new_file, mode);
    return static_cast<bool>(opened);
  });
  return opened;
}

// Another process may have removed the file, or renamed it to its target, before it was locked.
bool is_at(int descriptor, const std::string& path) {
  struct stat here {};
  struct stat there {};
  return fstat(descriptor, &here) == 0 && lstat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

enum class Attempt {
  done,
  again,       // what was there is gone
  held,        // by another process
  impossible,  // to hold a file of this name
};

Attempt try_to_hold(const std::string& path, unsigned mode, Descriptor& opened) {
  opened = open_descriptor(path, new_file, mode);
  if (!opened && errno != EEXIST) return Attempt::done;
  const bool made = static_cast<bool>(opened);
  if (!made) opened = open_descriptor(path, O_RDWR | O_NOFOLLOW);
  if (!opened) return errno == ENOENT ? Attempt::again : Attempt::impossible;
  if (flock(opened.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Attempt::held;
    if (made) unlink(path.c_str());
    return Attempt::impossible;
  }
  if (!is_at(opened.get(), path)) return Attempt::again;
  if (made) return Attempt::done;
  // Whoever made it is no more. While it is locked here, nobody else removes it.
  return unlink(path.c_str()) == 0 ? Attempt::again : Attempt::impossible;
}

}  // namespace

Descriptor hold_temporary(const std::string& folder, const std::string& name, unsigned mode,
                          TemporaryName& temporary) {
  const std::string own = "." + name + ".tmp";
  const std::string path = folder + "/" + own;
  constexpr int attempts = 100;
  for (int n = 0; n < attempts && own.size() <= NAME_MAX; ++n) {
    // The name is registered for removal by a signal once the file is this process's own.
    const Uninterrupted section;
    Descriptor opened;
    const Attempt attempt = try_to_hold(path, mode, opened);
    if (attempt == Attempt::again) continue;
    if (attempt == Attempt::impossible) break;
    if (attempt == Attempt::held) {
      errno = EWOULDBLOCK;
      return {};
    }
    if (opened) temporary = TemporaryName(path);
    return opened;
  }
  return random_temporary(folder, name, mode, temporary);
}

}  // namespace attn
