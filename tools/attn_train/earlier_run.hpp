#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "attn_train/recipe.hpp"
#include "attn_train/task.hpp"
#include "io/input.hpp"
#include "train/vocabulary.hpp"

namespace attn::tools {

/// The length and the CRC-32 of a checkpoint, "1003854-a3b1c2d4": equal files have equal prints.
/// Throws Error(input) for a file that cannot be read.
std::string print_of_file(const std::string& file);

/// The checkpoint from whose weights another run begins: --from. The new run may have another
/// objective, scheme or head.
class EarlierRun {
 public:
  /// `bundle` is the open file. Throws Error(input) unless it is a checkpoint of attn-train.
  EarlierRun(io::InputBundle bundle, std::string file);

  const std::string& file() const { return file_; }

  /// Its vocabulary of this name, for a new run of `recipe` that needs these special tokens. A
  /// language model has read the sources of pairs, and has none for their targets. Throws
  /// Recipe::refusal if data.tokens, data.vocabulary, data.line-ends or data.joint of the two runs
  /// contradict each other, and Error(input) if there is no such vocabulary, a special token is
  /// missing, or merges do not make the symbols.
  std::optional<train::Vocabulary> vocabulary(const Recipe& recipe, const std::string& name,
                                              const std::vector<std::string>& specials) const;

  /// The tensors that the task takes, those with the same name and shape: "taken" is their number,
  /// "new" the task's other tensors, "not_taken" the checkpoint's. The layers of a language model
  /// are those of the encoder of pairs. The softmax over classes is new unless both runs have the
  /// same classes. Throws Error(input) if no matrix is taken, and as checked_datasets does.
  template <class T>
  nlohmann::ordered_json shared_with(const Task<T>& task) const;

  /// Reads the taken tensors, and leaves the others as they are. Throws Error(input) for a number
  /// that is not finite in T.
  template <class T>
  void read(const Task<T>& task, T* weights) const;

 private:
  template <class T>
  std::string taken_name(const Task<T>& task, const train::Parameter& one) const;
  bool is_language_model() const;

  io::InputBundle bundle_;
  std::string file_;
  nlohmann::ordered_json recipe_;
};

}  // namespace attn::tools
