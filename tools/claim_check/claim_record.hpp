#pragma once

#include <optional>
#include <string>
#include <vector>

#include "claim_check/claim_report.hpp"
#include "claim_check/run_stamp.hpp"

namespace attn::tools {

/// The entry of one claim in a record.
struct RecordedClaim {
  std::string id;
  std::string verdict;  ///< holds, refuted or error
  std::optional<double> measured;
  std::optional<double> expected;
  std::optional<double> unit;  ///< headroom_unit, if there is one
  std::optional<double> headroom;
};

/// The record of one run of claim-check: a file with a line of JSON for each claim.
struct ClaimRecord {
  std::string file;
  RunStamp stamp;
  std::vector<RecordedClaim> claims;
};

/// The lines of --record: each has commit, version, cpu, date, and the members of RecordedClaim.
std::string record_text(const ClaimResults& all, const RunStamp& stamp);

inline constexpr const char* record_ending = ".jsonl";

/// "20260131T120000.000Z-4c07d15a1b2c", without the ending: names of records sort by date.
std::string record_name(const RunStamp& stamp);

/// Reads a record; from a folder, the record with the last name. Throws Error(input), naming file
/// and line, for a file that is not a record.
ClaimRecord read_record(const std::string& place);

/// All records of a folder, in the order of their names. Throws like read_record.
std::vector<ClaimRecord> read_records(const std::string& folder);

}  // namespace attn::tools
