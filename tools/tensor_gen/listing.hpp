#pragma once

#include <string>

#include "cli/command.hpp"
#include "tensor/dtype.hpp"

namespace attn::tools {

/// The datasets that a run is about to make: their names, shapes and bytes in the report.
class Listing {
 public:
  Listing(const cli::Arguments& arguments, cli::Report& report);

  /// Throws Error(usage) if all of them together have too many bytes.
  void add(const std::string& name, DType type, const Shape& shape);

  /// Writes kind, elements and bytes into the report's result; in a dry run prints the table.
  void finish();

  Index elements() const { return elements_; }
  std::string bytes() const;  ///< in words
  const std::string& target() const { return target_; }

 private:
  const cli::Arguments& arguments_;
  cli::Report& report_;
  std::string target_;
  std::string table_;
  Index elements_ = 0;
  Index bytes_ = 0;
};

}  // namespace attn::tools
