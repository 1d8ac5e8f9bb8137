#pragma once

#include <string>
#include <vector>

#include "io/input.hpp"
#include "io/output.hpp"

// The numbers from which a run continues or begins, with their checksums: the dataset
// state/checksums has one text "CRC NAME" for each dataset, its CRC-32 in 8 hexadecimal digits, and
// the attribute train_checksum is the CRC-32 of these texts, each followed by a line feed.

namespace attn::tools {

/// The group of what is no tensor of the model.
inline const std::string state_group = "state";

/// Writes such datasets.
class CheckedOutput {
 public:
  /// `bundle` must outlive the object.
  explicit CheckedOutput(io::OutputBundle& bundle) : bundle_(bundle) {}

  io::OutputBundle& bundle() { return bundle_; }

  /// Writes a dataset of row-major float or double numbers.
  template <class T>
  void write(const std::string& name, const Shape& shape, const T* numbers,
             const std::vector<std::string>& labels = {});

  /// Writes the checksums of all datasets, in the order in which they were written.
  void finish();

 private:
  io::OutputBundle& bundle_;
  std::vector<std::string> lines_;
};

/// The names of these datasets, after a look at all of their numbers, 1 MiB or a row at a time.
/// Throws Error(input), with `hint`, that names the first dataset whose numbers are not those that
/// were written, or `file` if the checksums are missing or damaged.
std::vector<std::string> checked_datasets(const io::InputBundle& bundle, const std::string& file,
                                          const std::string& hint = "");

}  // namespace attn::tools
