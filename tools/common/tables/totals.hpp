#pragma once

#include <string>

#include "common/options/padding_words.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// The combined result of a scheme over all heads.
struct Totals {
  SchemeSummary worst;
  Index empty_queries = 0;
  Index masked_keys = 0;
  Padding padding = {};

  void add(const Totals& more);
};

/// "done", "converged", "not_converged", "infeasible".
std::string status_name(SolveStatus status);

}  // namespace attn::tools
