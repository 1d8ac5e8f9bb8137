#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "claim_check/claim_falsification.hpp"
#include "claim_check/claim_report.hpp"
#include "common/tables/table.hpp"

namespace attn::tools {

/// The table of --falsify: id, kind, expected, measured, measured when perturbed, and whether the
/// claim can fail. Below the table, the claims that cannot fail, with reasons, and the numbers of
/// both kinds.
std::string falsification_text(const ClaimResults& all, std::span<const Falsification> found);

/// The figures of a claim with --falsify, a row of --tsv.
struct FalsificationRow {
  const Claim& claim;
  const ClaimResult& result;
  const Falsification& found;
};
const Figures<FalsificationRow>& falsification_figures();

/// {"computed", "computed_can_fail", "excused", "printed", "printed_can_fail", "share", "list":
/// [{"id", "kind", "can_fail", "reason", "perturbed"}]}; share is over the computed claims.
nlohmann::ordered_json falsification_json(const ClaimResults& all,
                                          std::span<const Falsification> found);

}  // namespace attn::tools
