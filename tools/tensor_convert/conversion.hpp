#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "common/results/results.hpp"
#include "io/array_metadata.hpp"
#include "io/input.hpp"
#include "tensor_convert/produced.hpp"

namespace attn::tools {

/// The task of tensor-convert: opened arguments, the datasets to be written, and the writing.
class Conversion {
 public:
  /// Throws Error(usage) for contradictory options, Error(input) for files that cannot be read or
  /// contain nothing that can be written. Warns of objects that the format cannot hold, which are
  /// left out; refuses them if they were named.
  Conversion(const cli::Arguments& arguments, cli::Report& report);

  /// "h5", "npy", "npz" or "safetensors".
  const std::string& format() const { return format_; }

  /// The datasets that will be written, and the others of INPUT's root that are copied unchanged;
  /// without groups, as there may be many.
  const std::vector<Produced>& datasets() const { return datasets_; }
  const std::vector<ArraySource>& copied() const { return copied_; }
  Index groups() const;

  /// Returns the value for cli::Outcome::commit.
  std::function<void()> write();

 private:
  bool is_decoder() const;
  bool is_named(const std::string& name) const;
  bool is_rewritten(const std::string& name) const;
  void open_words();
  void take_model();
  void take_datasets();
  void take(const std::string& name, bool named);
  void take_strings(const ArraySource& dataset, bool named);
  void take_items(const std::set<std::string>& without);
  std::vector<std::pair<std::string, Setting>> attributes_of_model() const;
  std::string metadata();
  void require_something() const;
  void require_splits() const;
  void warn_of_losses();
  std::optional<DType> target_type(DType stored) const;
  /// By how many heads --heads splits a dataset of this name; absent: not at all.
  std::optional<Index> heads_of(const std::string& name) const;
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
  std::vector<std::pair<std::string, Setting>> model_attributes_;
  std::vector<ArraySource> copied_;  ///< strings and other such types, copied into a bundle
  std::vector<std::string> left_out_;
  // For a file of arrays: the source of its metadata.
  std::vector<io::Item> items_;
  std::vector<io::TextDataset> texts_;
  std::string metadata_;
  std::vector<std::string> rewritten_;  ///< written by this class; others are copied unchanged
  ResultPlan results_;                  ///< results that do not belong to the named datasets
};

}  // namespace attn::tools
