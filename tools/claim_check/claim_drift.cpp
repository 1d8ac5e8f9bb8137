#include "claim_check/claim_drift.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "claim_check/claim_json.hpp"
#include "cli/words.hpp"
#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

// Records in the text of `history`; --tsv has all.
constexpr std::size_t most_columns = 8;

using Number = std::optional<double> RecordedClaim::*;

std::optional<double> number_of(const std::optional<RecordedClaim>& claim, Number number) {
  return claim ? (*claim).*number : std::nullopt;
}

std::string verdict_of(const std::optional<RecordedClaim>& claim) {
  return claim ? claim->verdict : "";
}

std::string change_of(const ClaimDrift& drift) {
  if (!drift.before) return "new: " + verdict_of(drift.after);
  if (!drift.after) return "gone";
  if (!drift.turned()) return verdict_of(drift.after);
  return verdict_of(drift.before) + " -> " + verdict_of(drift.after);
}

std::string name_of(const RunStamp& stamp) {
  return cli::one_line(
      fmt::format("{} of {} ({}, {})", stamp.commit, stamp.date, stamp.version, stamp.cpu));
}

Json json_of(const RunStamp& stamp) {
  return {{"commit", stamp.commit},
          {"version", stamp.version},
          {"cpu", stamp.cpu},
          {"date", stamp.date}};
}

// The date without its time, and the beginning of the commit.
std::string heading_of(const RunStamp& stamp) {
  return cli::one_line(stamp.date.substr(0, 10) + " " + stamp.commit.substr(0, 7));
}

}  // namespace

std::optional<double> ClaimDrift::moved() const {
  const auto from = number_of(before, &RecordedClaim::measured);
  const auto to = number_of(after, &RecordedClaim::measured);
  return from && to ? std::optional(*to - *from) : std::nullopt;
}

std::optional<double> ClaimDrift::of_tolerance() const {
  const auto by = moved();
  const auto unit = number_of(after, &RecordedClaim::unit);
  return by && unit ? std::optional(std::abs(*by) / *unit) : std::nullopt;
}

bool ClaimDrift::turned() const { return verdict_of(before) != verdict_of(after); }

bool ClaimDrift::differs() const { return turned() || moved().value_or(0) != 0; }

bool ClaimDrift::matters() const {
  // Without a unit every move is one.
  const bool has_unit = number_of(after, &RecordedClaim::unit).has_value();
  return turned() || (has_unit ? of_tolerance().value_or(0) >= 1 : differs());
}

std::vector<ClaimDrift> drifts(const ClaimRecord& before, const ClaimRecord& after) {
  std::map<std::string, ClaimDrift> by_id;
  for (const RecordedClaim& claim : before.claims) by_id[claim.id].before = claim;
  for (const RecordedClaim& claim : after.claims) by_id[claim.id].after = claim;
  std::vector<ClaimDrift> all;
  for (auto& [id, drift] : by_id) {
    drift.id = id;
    all.push_back(std::move(drift));
  }
  const auto weight = [](const ClaimDrift& drift) {
    if (drift.turned()) return HUGE_VAL;
    return drift.of_tolerance().value_or(std::abs(drift.moved().value_or(0)));
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const ClaimDrift& a, const ClaimDrift& b) { return weight(a) > weight(b); });
  return all;
}

std::string drift_text(const ClaimRecord& before, const ClaimRecord& after,
                       std::span<const ClaimDrift> all) {
  std::vector<std::vector<std::string>> rows = {headings_of(drift_figures())};
  rows.front().insert(rows.front().end(), {"headroom", "verdict"});
  for (const ClaimDrift& drift : all) {
    if (!drift.differs()) continue;
    rows.push_back(texts_of(drift_figures(), drift));
    rows.back().insert(rows.back().end(),
                       {digits(number_of(drift.before, &RecordedClaim::headroom), 2) + " -> " +
                            digits(number_of(drift.after, &RecordedClaim::headroom), 2),
                        change_of(drift)});
  }
  const std::size_t differing = rows.size() - 1;
  return fmt::format("before: {}\nafter:  {}\n\n", name_of(before.stamp), name_of(after.stamp)) +
         (differing == 0 ? "" : aligned(rows) + "\n") +
         fmt::format("{}: {} differ\n", cli::counted(all.size(), "claim"), differing);
}

const Figures<ClaimDrift>& drift_figures() {
  using Of = const ClaimDrift&;
  const auto before = [](Of of) { return number_of(of.before, &RecordedClaim::measured); };
  const auto after = [](Of of) { return number_of(of.after, &RecordedClaim::measured); };
  const auto id = [](Of of) { return of.id; };
  static const Figures<ClaimDrift> all = {
      {"id", id, true, id},
      {"before", [=](Of of) { return cell(before(of)); }, true,
       [=](Of of) { return digits(before(of)); }},
      {"after", [=](Of of) { return cell(after(of)); }, true,
       [=](Of of) { return digits(after(of)); }},
      {"moved", [](Of of) { return cell(of.moved()); }, true,
       [](Of of) { return digits(of.moved(), 2); }},
      {"of_tolerance", [](Of of) { return cell(of.of_tolerance()); }, true,
       [](Of of) { return digits(of.of_tolerance(), 2); }},
      {"headroom_before",
       [](Of of) { return cell(number_of(of.before, &RecordedClaim::headroom)); }},
      {"headroom_after", [](Of of) { return cell(number_of(of.after, &RecordedClaim::headroom)); }},
      {"verdict_before", [](Of of) { return verdict_of(of.before); }},
      {"verdict_after", [](Of of) { return verdict_of(of.after); }}};
  return all;
}

nlohmann::ordered_json drift_json(const ClaimRecord& before, const ClaimRecord& after,
                                  std::span<const ClaimDrift> all) {
  Json list = Json::array();
  for (const ClaimDrift& drift : all) {
    if (!drift.differs()) continue;
    Json entry;
    add_members(
        drift_figures(), drift,
        {"id", "before", "after", "moved", "of_tolerance", "verdict_before", "verdict_after"},
        entry);
    list.push_back(std::move(entry));
  }
  return {{"claims", all.size()},
          {"before", json_of(before.stamp)},
          {"after", json_of(after.stamp)},
          {"differing", std::move(list)}};
}

std::string history_text(std::span<const ClaimRecord> records) {
  const auto shown =
      records.subspan(records.size() > most_columns ? records.size() - most_columns : 0);
  std::vector<std::vector<std::string>> rows = {{"id"}};
  std::map<std::string, std::size_t> row_of;
  for (std::size_t n = 0; n < shown.size(); ++n) {
    rows.front().push_back(heading_of(shown[n].stamp));
    for (const RecordedClaim& claim : shown[n].claims) {
      const auto [at, is_new] = row_of.emplace(claim.id, rows.size());
      if (is_new) rows.push_back({claim.id});
      rows[at->second].resize(n + 1, "-");
      const std::string room = digits(claim.headroom, 2);
      rows[at->second].push_back(claim.verdict == "error" ? "error" : room);
    }
  }
  return "Headroom by record:\n\n" + aligned(rows) +
         fmt::format("\n{} in {}\n", cli::counted(row_of.size(), "claim"),
                     cli::counted(records.size(), "record"));
}

const Figures<HistoryRow>& history_figures() {
  using Of = const HistoryRow&;
  static const Figures<HistoryRow> all = {
      {"date", [](Of of) { return of.stamp.date; }},
      {"commit", [](Of of) { return of.stamp.commit; }},
      {"version", [](Of of) { return of.stamp.version; }},
      {"cpu", [](Of of) { return of.stamp.cpu; }},
      {"id", [](Of of) { return of.claim.id; }},
      {"measured", [](Of of) { return cell(of.claim.measured); }},
      {"expected", [](Of of) { return cell(of.claim.expected); }},
      {"unit", [](Of of) { return cell(of.claim.unit); }},
      {"headroom", [](Of of) { return cell(of.claim.headroom); }},
      {"verdict", [](Of of) { return of.claim.verdict; }}};
  return all;
}

nlohmann::ordered_json history_json(std::span<const ClaimRecord> records) {
  Json list = Json::array();
  for (const ClaimRecord& record : records) {
    Json entry = json_of(record.stamp);
    entry["file"] = record.file;
    entry["claims"] = record.claims.size();
    list.push_back(std::move(entry));
  }
  return {{"records", std::move(list)}};
}

}  // namespace attn::tools
