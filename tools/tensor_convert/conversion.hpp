#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/results.hpp"
#include "io/input.hpp"
#include "tensor_convert/produced.hpp"

namespace attn::tools {

/// What tensor-convert is asked for: its words opened, the datasets to be written, and the writing.
class Conversion {
 public:
  /// Throws Error(usage) for options that do not go together, Error(input) for files that cannot
  /// be read or have nothing that would be written. Warns of what the format cannot hold and is
  /// left out; refuses it where it was named.
  Conversion(const cli::Arguments& arguments, cli::Report& report);

  /// "h5", "npy", "npz" or "safetensors".
  const std::string& format() const { return format_; }

  /// The numbers that will be written, and what else of INPUT's root is copied as it is; groups, of
  /// which there are so many at the root, excepted.
  const std::vector<Produced>& datasets() const { return datasets_; }
  const std::vector<io::InputDataset>& copied() const { return copied_; }
  Index groups() const;

  /// Gives what cli::Outcome::commit is to be.
  std::function<void()> write();

 private:
  bool is_decoder() const;
  bool is_named(const std::string& name) const;
  bool is_rewritten(const std::string& name) const;
  void open_words();
  void take_model();
  void take_datasets();
  void take(const std::string& name, bool named);
  void require_something() const;
  void warn_of_losses();
  std::optional<DType> target_type(DType stored) const;
  std::function<void()> write_bundle();
  std::function<void()> write_arrays();

  const cli::Arguments& arguments_;
  cli::Report& report_;
  std::string format_;
  std::optional<DType> asked_;  ///< --dtype
  std::vector<std::string> files_;
  std::vector<std::pair<std::string, std::string>> named_;
  std::vector<io::InputBundle> bundles_;
  std::vector<Produced> datasets_;
  std::vector<io::InputDataset> copied_;  ///< strings and such types, into a bundle
  std::vector<std::string> left_out_;
  std::vector<std::string> rewritten_;  ///< by us, where the others are copied as they are
  ResultPlan results_;                  ///< that do not belong to what the words name
};

}  // namespace attn::tools
