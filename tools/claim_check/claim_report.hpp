#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "claim_check/claim_run.hpp"
#include "common/tables/table.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// Claims and their results, one each, in order.
struct ClaimResults {
  std::span<const Claim> claims;
  std::span<const ClaimResult> results;
  std::string tools = {};  ///< the folder of the tools, for running commands again

  struct Counts {
    Index as_expected = 0;
    Index otherwise = 0;  ///< a verdict other than the expected one
    Index errors = 0;
    std::array<Index, 3> of_kind{};  ///< claims of each ClaimKind
  };
  Counts counts() const;
};

/// A number with six digits; the sign of a NaN has no meaning. A dash in place of no number.
std::string digits(double value, int count = 6);
std::string digits(std::optional<double> value, int count = 6);

/// What a claim's command measured; absent if it did not run.
std::optional<double> measured(const ClaimResult& result);

/// "holds", "refuted" or "error".
std::string verdict_word(const ClaimResult& result);

/// What is expected: "<= 0.5", "1 ± 1e-12", "increasing".
std::string expected_text(const Claim& claim, const ClaimResult& result);

/// Why a verdict is not the expected one: the error, or the measured and expected numbers.
std::string explanation(const Claim& claim, const ClaimResult& result);

/// Whether the claim came out as expected, and its headroom is below `least`. Printed constants do
/// not drift.
bool is_near_its_bound(const Claim& claim, const ClaimResult& result, double least);

/// The table: id, source, expected, measured, margin, headroom, verdict, seconds. Below the table,
/// for each failure, the statement, the reason and the last output of the command.
std::string claims_table(const ClaimResults& all);

/// The figures of a claim, a row of --tsv.
struct ClaimRow {
  const Claim& claim;
  const ClaimResult& result;
};
const Figures<ClaimRow>& claim_figures();

/// The same table in Markdown, with statements beside the ids.
std::string claims_markdown(const ClaimResults& all);

/// The results as JUnit XML, which CI systems read: a suite per file of claims and a case per
/// claim, with `failure` for an unexpected verdict and `error` if there is no verdict.
std::string claims_junit(const ClaimResults& all);

/// {"claims", "as_expected", "otherwise", "errors", "list": [{"id", ...}]}.
nlohmann::ordered_json claims_json(const ClaimResults& all);

}  // namespace attn::tools
