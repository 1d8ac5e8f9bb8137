#include "claim_check/falsification_report.hpp"

#include <fmt/format.h>

#include "claim_check/claim_json.hpp"
#include "cli/words.hpp"
#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

const char* kind_of(const Claim& claim) { return claim.printed ? "printed" : "computed"; }

std::string measured_text(const ClaimResult& result) {
  return result.ran() ? digits(result.verdict.measured) : "-";
}

double share_of(const FalsificationCounts& numbers) {
  if (numbers.computed == 0) return 1;
  return static_cast<double>(numbers.computed_can_fail) / static_cast<double>(numbers.computed);
}

}  // namespace

std::string falsification_text(const ClaimResults& all, std::span<const Falsification> found) {
  std::vector<std::vector<std::string>> rows = {
      {"id", "kind", "expected", "measured", "perturbed", "verdict"}};
  std::string reasons;
  for (std::size_t n = 0; n < found.size(); ++n) {
    const Claim& claim = all.claims[n];
    const Falsification& one = found[n];
    rows.push_back({claim.id, kind_of(claim), expected_text(claim, all.results[n]),
                    measured_text(all.results[n]),
                    one.perturbed ? measured_text(*one.perturbed) : "-",
                    one.can_fail ? "can fail" : "CANNOT FAIL"});
    if (one.can_fail) continue;
    reasons += fmt::format("{} ({}:{}): {}\n", claim.id, cli::one_line(claim.file), claim.line,
                           cli::one_line(one.reason));
  }
  const FalsificationCounts numbers = counts(all.claims, found);
  return aligned(rows) + (reasons.empty() ? "" : "\n" + reasons) +
         fmt::format("\n{}: {} can fail ({:.1f}%), {} say why they cannot\n",
                     cli::counted(numbers.computed, "computed claim"), numbers.computed_can_fail,
                     100 * share_of(numbers), numbers.excused) +
         fmt::format("{}: {} can fail\n", cli::counted(numbers.printed, "printed claim"),
                     numbers.printed_can_fail);
}

std::vector<TableColumn> falsification_columns() {
  return {{"file", false}, {"id"},        {"kind"},     {"expected"},
          {"measured"},    {"perturbed"}, {"can_fail"}, {"reason", false}};
}

std::vector<std::vector<Cell>> falsification_rows(const ClaimResults& all,
                                                  std::span<const Falsification> found) {
  const auto number = [](const ClaimResult& result) {
    return result.ran() ? Cell(result.verdict.measured) : Cell();
  };
  std::vector<std::vector<Cell>> rows;
  for (std::size_t n = 0; n < found.size(); ++n) {
    const Claim& claim = all.claims[n];
    const Falsification& one = found[n];
    rows.push_back({claim.file, claim.id, std::string(kind_of(claim)),
                    expected_text(claim, all.results[n]), number(all.results[n]),
                    one.perturbed ? number(*one.perturbed) : Cell(), one.can_fail, one.reason});
  }
  return rows;
}

nlohmann::ordered_json falsification_json(const ClaimResults& all,
                                          std::span<const Falsification> found) {
  const FalsificationCounts numbers = counts(all.claims, found);
  Json list = Json::array();
  for (std::size_t n = 0; n < found.size(); ++n) {
    Json entry = {{"id", all.claims[n].id},
                  {"kind", kind_of(all.claims[n])},
                  {"can_fail", found[n].can_fail}};
    if (!found[n].can_fail) entry["reason"] = found[n].reason;
    const auto& perturbed = found[n].perturbed;
    if (perturbed && perturbed->ran()) entry["perturbed"] = perturbed->verdict.measured;
    list.push_back(std::move(entry));
  }
  return {{"computed", numbers.computed},
          {"computed_can_fail", numbers.computed_can_fail},
          {"excused", numbers.excused},
          {"printed", numbers.printed},
          {"printed_can_fail", numbers.printed_can_fail},
          {"share", share_of(numbers)},
          {"list", std::move(list)}};
}

}  // namespace attn::tools
