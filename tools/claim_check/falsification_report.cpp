#include "claim_check/falsification_report.hpp"

#include <fmt/format.h>

#include "claim_check/claim_json.hpp"
#include "cli/words.hpp"
#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

double share_of(const FalsificationCounts& numbers) {
  if (numbers.computed == 0) return 1;
  return static_cast<double>(numbers.computed_can_fail) / static_cast<double>(numbers.computed);
}

}  // namespace

std::string falsification_text(const ClaimResults& all, std::span<const Falsification> found) {
  std::vector<std::vector<std::string>> rows = {headings_of(falsification_figures())};
  rows.front().emplace_back("verdict");
  std::string reasons;
  for (std::size_t n = 0; n < found.size(); ++n) {
    const Claim& claim = all.claims[n];
    const Falsification& one = found[n];
    rows.push_back(texts_of(falsification_figures(), {claim, all.results[n], one}));
    rows.back().emplace_back(one.can_fail ? "can fail" : "CANNOT FAIL");
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

const Figures<FalsificationRow>& falsification_figures() {
  using Of = const FalsificationRow&;
  const auto id = [](Of of) { return of.claim.id; };
  const auto kind = [](Of of) { return name(of.claim.kind); };
  const auto expected = [](Of of) { return expected_text(of.claim, of.result); };
  const auto moved = [](Of of) {
    return of.found.perturbed ? measured(*of.found.perturbed) : std::nullopt;
  };
  static const Figures<FalsificationRow> all = {
      {"file", [](Of of) { return of.claim.file; }, false},
      {"id", id, true, id},
      {"kind", kind, true, kind},
      {"expected", expected, true, expected},
      {"measured", [](Of of) { return cell(measured(of.result)); }, true,
       [](Of of) { return digits(measured(of.result)); }},
      {"perturbed", [=](Of of) { return cell(moved(of)); }, true,
       [=](Of of) { return digits(moved(of)); }},
      {"can_fail", [](Of of) { return of.found.can_fail; }},
      {"reason", [](Of of) { return of.found.reason; }, false}};
  return all;
}

nlohmann::ordered_json falsification_json(const ClaimResults& all,
                                          std::span<const Falsification> found) {
  const FalsificationCounts numbers = counts(all.claims, found);
  Json list = Json::array();
  for (std::size_t n = 0; n < found.size(); ++n) {
    const FalsificationRow row{all.claims[n], all.results[n], found[n]};
    Json entry;
    add_members(falsification_figures(), row, {"id", "kind", "can_fail"}, entry);
    if (!found[n].can_fail) add_members(falsification_figures(), row, {"reason"}, entry);
    const auto& perturbed = found[n].perturbed;
    if (perturbed && perturbed->ran()) {
      add_members(falsification_figures(), row, {"perturbed"}, entry);
    }
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
