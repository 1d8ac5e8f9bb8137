#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "claim_check/claim_run.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Claims with what became of them, one each, in order.
struct ClaimResults {
  std::span<const Claim> claims;
  std::span<const ClaimResult> results;

  struct Counts {
    Index as_expected = 0;
    Index otherwise = 0;  ///< a verdict, but not the one expected
    Index errors = 0;
  };
  Counts counts() const;
};

/// The table: id, source, expected, measured, margin, verdict, seconds; what went wrong below it,
/// with the statement and what the command wrote last.
std::string claims_table(const ClaimResults& all);

/// The same as a table of Markdown, with statements in place of ids alone.
std::string claims_markdown(const ClaimResults& all);

/// As JUnit's XML, which CI systems read: a suite for each file of claims, a case for each claim
/// with `failure` for a verdict that was not expected, `error` for none.
std::string claims_junit(const ClaimResults& all);

/// {"claims", "as_expected", "otherwise", "errors", "list": [{"id", ...}]}.
nlohmann::ordered_json claims_json(const ClaimResults& all);

}  // namespace attn::tools
