#pragma once

#include <string>

namespace attn::cli {

/// A new text file that replaces another one. It is invisible until it takes the name of that file;
/// otherwise its destructor removes it, or undo_texts() if a signal ends the process. A process may
/// have one at a time.
class TextReplacement {
 public:
  /// Makes an empty file in the folder of `target`, readable by its owner only. `target` is a path
  /// without symbolic links. On failure descriptor() is negative and errno is set.
  explicit TextReplacement(std::string target);

  /// Restores the old file unless the replacement is final.
  ~TextReplacement();
  TextReplacement(const TextReplacement&) = delete;
  TextReplacement& operator=(const TextReplacement&) = delete;

  int descriptor() const { return descriptor_; }

  /// Replaces the target, finally. On failure returns false, sets errno and leaves the target as it
  /// was.
  bool take_name();

  /// Replaces the target until the destructor runs, unless keep_texts() makes it final.
  bool take_name_for_now();

 private:
  bool have_a_name();
  bool move_old_aside();
  std::string own_link() const;

  std::string target_;
  int descriptor_ = -1;
};

/// Makes a temporary replacement final. Safe to call from a signal handler.
void keep_texts() noexcept;

/// Undoes a temporary replacement and removes its files. Safe to call from a signal handler.
void undo_texts() noexcept;

}  // namespace attn::cli
