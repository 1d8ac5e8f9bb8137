#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "io/contents.hpp"
#include "tensor/value_range.hpp"

namespace attn::tools {

/// The attribute in which HDF5 stores the names of a dataset's axes.
inline const std::string axis_labels = "DIMENSION_LABELS";

/// The groups and datasets of a bundle, with the ranges of their numbers.
class Inventory {
 public:
  struct Entry {
    io::Item item;
    std::optional<ValueRange> range;  ///< for numbers and bools, if they were read
    std::string first;                ///< for strings: the first few
  };

  /// Datasets named with -i replace datasets of INPUT. `with_values`: reads every number once, 2
  /// MiB at a time. An unreadable item has a reason (io::Item::unreadable).
  Inventory(const cli::Arguments& arguments, const io::InputBundle& bundle, bool with_values);

  const std::vector<Entry>& entries() const { return entries_; }

  /// A line per dataset: path, shape, type, range; also one per unreadable item.
  std::string table() const;

  /// Why the first unreadable item cannot be read, and the number of further ones; empty if all can
  /// be read.
  std::optional<std::string> unreadable() const;

 private:
  void read_values(const io::InputBundle& bundle, Entry& entry, cli::Progress& progress);

  bool with_values_;
  std::vector<Entry> entries_;
};

}  // namespace attn::tools
