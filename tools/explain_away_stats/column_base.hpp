#pragma once

#include <string>

#include "cli/command.hpp"
#include "common/frame/sections.hpp"
#include "explain_away_stats/column_task.hpp"

namespace attn::tools {

/// Throws Error(usage) for options that have no meaning with --against, and for --threshold without
/// it.
void require_against(const cli::Arguments& arguments);

/// BASE of --against: a bundle that is read with the same options as INPUT.
class ColumnBase {
 public:
  /// Opens BASE. Throws what opening an INPUT throws.
  ColumnBase(const cli::Arguments& arguments, cli::Report& report);

  /// Throws Error(input) that names a group, or heads of it, that only BASE or only INPUT has, and
  /// for groups whose statistics are of different schemes.
  void require_same(const cli::Arguments& arguments, const Sections& input) const;

  /// The options for BASE.
  const cli::Arguments& arguments() const { return arguments_; }

  /// The section of BASE that a section of INPUT is compared with: the group of the same name, or
  /// the only section if INPUT has only one, too.
  ColumnTask task(const SectionName& section) const;

 private:
  std::size_t place_of(const SectionName& section) const;

  cli::Arguments arguments_;
  Sections sections_;
};

}  // namespace attn::tools
