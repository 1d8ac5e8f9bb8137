#pragma once

#include <string>

#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn {

/// Renames the file `temporary` to `target`, and makes a provisional Replacement final: no signal
/// arrives between the two. Without `replace`, an existing file at `target` is not touched
/// (EEXIST). On failure returns false, with errno set and both files as they were.
bool take_name(TemporaryName& temporary, const std::string& target, bool replace);

/// A new file that replaces the file `target`, provisionally or for good. Until then it is not
/// visible, and its owner's destructor and remove_temporaries() remove it. At most one per process
/// may exist at a time.
class Replacement {
 public:
  /// Makes an empty file of mode 0600 in the folder of `target`, a path without symbolic links. On
  /// failure descriptor() is negative and errno is set.
  explicit Replacement(std::string target);

  /// Restores the old file unless the replacement is final.
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  int descriptor() const { return descriptor_.get(); }

  /// Replaces the target for good; without `replace`, an existing target is not touched (EEXIST).
  /// On failure returns false, with errno set and the target as it was.
  bool take_name(bool replace = true);

  /// Replaces the target provisionally: the destructor and remove_temporaries() restore the old
  /// file unless keep_replacement() was called first. Fails as take_name().
  bool take_name_for_now();

 private:
  bool have_a_name();
  bool move_old_aside();

  std::string target_;
  std::string folder_;
  TemporaryName name_;
  Descriptor descriptor_;
};

/// Makes a provisional Replacement final. Safe to call from a signal handler.
void keep_replacement() noexcept;

/// Undoes a provisional Replacement. Safe to call from a signal handler.
void undo_replacement() noexcept;

}  // namespace attn
