#pragma once

#include <string>

#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn {

/// Gives the file that `temporary` names the name `target`, for good, and makes final what a
/// Replacement has replaced for now: both at once, as far as signals can see. Unless `replace`, a
/// file that has the name already is left alone (EEXIST). False, with errno set and both files as
/// they were, if the system refuses.
bool take_name(TemporaryName& temporary, const std::string& target, bool replace);

/// A file that is to take the name of another one, perhaps for now only. It is not visible until
/// then, and is removed with its owner and by remove_temporaries(). One at a time in a process.
class Replacement {
 public:
  /// Makes an empty file, which only its owner may open, in the folder of `target`, a path without
  /// symbolic links. descriptor() is negative, with errno set, if that fails.
  explicit Replacement(std::string target);

  /// Brings back what was there before, unless the name was taken for good.
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  int descriptor() const { return descriptor_.get(); }

  /// Takes the target's name for good. False, with errno set and the target as it was, if the
  /// system refuses.
  bool take_name();

  /// Takes it until the owner goes or remove_temporaries() is called; keep_replacement() makes it
  /// final.
  bool take_name_for_now();

 private:
  bool have_a_name();
  bool move_old_aside();

  std::string target_;
  std::string folder_;
  TemporaryName name_;
  Descriptor descriptor_;
};

/// Makes final what a Replacement has replaced for now. Safe to call from a signal handler.
void keep_replacement() noexcept;

/// Brings back what a Replacement has replaced for now. Safe to call from a signal handler.
void undo_replacement() noexcept;

}  // namespace attn
