#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "io/contents.hpp"
#include "tensor/value_range.hpp"

namespace attn::tools {

/// The attribute in which HDF5 keeps the names of a dataset's axes.
inline const std::string axis_labels = "DIMENSION_LABELS";

/// The groups and datasets of a bundle, with the ranges of their numbers.
class Inventory {
 public:
  struct Entry {
    io::Item item;
    std::optional<ValueRange> range;  ///< of numbers and bools, where they were read
    std::string first;                ///< of strings: the first few
  };

  /// Datasets named with -i stand for those of INPUT. `with_values`: reads every number once, 2 MiB
  /// at a time. An item that cannot be read says why (io::Item::unreadable).
  Inventory(const cli::Arguments& arguments, const io::InputBundle& bundle, bool with_values);

  const std::vector<Entry>& entries() const { return entries_; }

  /// A line per dataset: path, shape, type, range; and for each item that cannot be read.
  std::string table() const;

  /// Why the first unreadable item cannot be read, and how many more there are; nothing where all
  /// can be read.
  std::optional<std::string> unreadable() const;

 private:
  void read_values(const io::InputBundle& bundle, Entry& entry, cli::Progress& progress);

  bool with_values_;
  std::vector<Entry> entries_;
};

}  // namespace attn::tools
