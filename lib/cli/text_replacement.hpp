#pragma once

#include <string>

namespace attn::cli {

/// A text file that is to take the name of another one. Until it has, nothing of it is seen; it is
/// removed with its owner, and by undo_texts() where a signal ends the process. One at a time in a
/// process.
class TextReplacement {
 public:
  /// Makes an empty file in the folder of `target`, a path without symbolic links, for its owner
  /// only. descriptor() is negative, with errno set, where that fails.
  explicit TextReplacement(std::string target);

  /// Brings back what was there before, unless the name was taken for good.
  ~TextReplacement();
  TextReplacement(const TextReplacement&) = delete;
  TextReplacement& operator=(const TextReplacement&) = delete;

  int descriptor() const { return descriptor_; }

  /// Takes the target's name for good. False, with errno set and the target as it was, where the
  /// system refuses that.
  bool take_name();

  /// The same until the owner goes: keep_texts() makes it final.
  bool take_name_for_now();

 private:
  bool have_a_name();
  bool move_old_aside();
  std::string own_link() const;

  std::string target_;
  int descriptor_ = -1;
};

/// Makes final what a text has replaced for now. Safe to call from a signal handler.
void keep_texts() noexcept;

/// Brings back what a text has replaced for now, and removes its temporary: for signal handlers and
/// other ends of the process.
void undo_texts() noexcept;

}  // namespace attn::cli
