#pragma once

namespace attn::tools {

/// Which parts of a report are made.
struct ReportOptions {
  bool several = false;  ///< there may be several sections, so that one table has them all
  bool each = true;      ///< prints the report of each section
  bool all = true;       ///< prints the table of all sections
  bool json = false;
};

}  // namespace attn::tools
