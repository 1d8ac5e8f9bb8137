#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "claim_check/claim_record.hpp"
#include "common/tables/table.hpp"

namespace attn::tools {

/// How a claim differs between two records. One side is absent for a claim that only the other
/// record has.
struct ClaimDrift {
  std::string id;
  std::optional<RecordedClaim> before;
  std::optional<RecordedClaim> after;

  std::optional<double> moved() const;         ///< measured after less before
  std::optional<double> of_tolerance() const;  ///< |moved| over the unit of the headroom after
  bool turned() const;                         ///< another verdict, or only on one side
  bool differs() const;                        ///< turned, or another measured number
  bool matters() const;                        ///< turned, or moved by the tolerance or more
};

/// All claims of both records: first those that turned, then the others, from the largest movement,
/// in units of the tolerance, to the smallest.
std::vector<ClaimDrift> drifts(const ClaimRecord& before, const ClaimRecord& after);

/// The table of `diff`: claims that differ, and the number of those that do not.
std::string drift_text(const ClaimRecord& before, const ClaimRecord& after,
                       std::span<const ClaimDrift> all);
const Figures<ClaimDrift>& drift_figures();
nlohmann::ordered_json drift_json(const ClaimRecord& before, const ClaimRecord& after,
                                  std::span<const ClaimDrift> all);

/// The table of `history`: the headroom of each claim in each of the last few records.
std::string history_text(std::span<const ClaimRecord> records);
/// The figures of a claim of a record, a row of --tsv.
struct HistoryRow {
  const RunStamp& stamp;
  const RecordedClaim& claim;
};
const Figures<HistoryRow>& history_figures();
nlohmann::ordered_json history_json(std::span<const ClaimRecord> records);

}  // namespace attn::tools
