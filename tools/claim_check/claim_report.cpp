#include "claim_check/claim_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "claim_check/claim_json.hpp"
#include "cli/words.hpp"
#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

// The number of lines shown of a command's last output.
constexpr std::size_t most_lines = 12;

std::string verdict_text(const Claim& claim, const ClaimResult& result) {
  if (!result.ran()) return "ERROR";
  const bool holds = result.verdict.holds;
  if (as_expected(claim, result)) return holds ? "holds" : "refuted, as expected";
  return holds ? "HOLDS, expected refuted" : "REFUTED";
}

std::string last_lines(const std::string& log) {
  std::vector<std::string> lines;
  std::istringstream stream(log);
  for (std::string line; std::getline(stream, line);) lines.push_back(cli::one_line(line));
  std::string text;
  const std::size_t first = lines.size() > most_lines ? lines.size() - most_lines : 0;
  for (std::size_t n = first; n < lines.size(); ++n) text += "    " + lines[n] + "\n";
  return text;
}

std::string failure_text(const Claim& claim, const ClaimResult& result, const std::string& tools) {
  std::string text = fmt::format("\n{} ({}:{}): {}\n  {}\n{}", claim.id, cli::one_line(claim.file),
                                 claim.line, cli::one_line(explanation(claim, result)),
                                 cli::one_line(claim.statement), last_lines(result.log));
  if (!result.files.empty()) text += fmt::format("  It left: {}\n", fmt::join(result.files, ", "));
  return text + "  To run it again:\n\n" + again_text(claim, tools);
}

std::string summary(const ClaimResults& all) {
  const ClaimResults::Counts counts = all.counts();
  std::size_t known = 0;
  std::size_t unkept = 0;
  for (const ClaimResult& result : all.results) {
    known += result.cached ? 1 : 0;
    unkept += result.not_kept.empty() ? 0 : 1;
  }
  std::string cache;
  if (known > 0) cache += fmt::format("; {} from the cache", known);
  if (unkept > 0) cache += fmt::format("; {} not kept in the cache (-v says why)", unkept);
  const auto of_kind = [&](ClaimKind kind) {
    return counts.of_kind.at(static_cast<std::size_t>(kind));
  };
  return fmt::format("{}: {} as expected, {} not, {} could not run{}\n",
                     cli::counted(all.claims.size(), "claim"), counts.as_expected, counts.otherwise,
                     counts.errors, cache) +
         fmt::format(
             "By kind: {} run a tool, {} are statistics of printed tables, {} compare printed "
             "constants\n",
             of_kind(ClaimKind::tool), of_kind(ClaimKind::statistics), of_kind(ClaimKind::printed));
}

template <class Body>
void for_each(const ClaimResults& all, const Body& body) {
  for (std::size_t n = 0; n < all.claims.size(); ++n) body(all.claims[n], all.results[n]);
}

// A bar would end the cell. Markdown passes HTML on, and turns other characters into links,
// pictures and code.
std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : cli::one_line(text)) {
    switch (c) {
      case '&':
        cell += "&amp;";
        break;
      case '<':
        cell += "&lt;";
        break;
      case '>':
        cell += "&gt;";
        break;
      case '|':
      case '`':
      case '[':
      case ']':
      case '\\':
        cell += '\\';
        [[fallthrough]];
      default:
        cell += c;
    }
  }
  return cell;
}

// XML does not allow other control characters, U+FFFE or U+FFFF.
std::string xml_text(const std::string& text) {
  std::string kept;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t length = cli::printing_character(rest);
    const std::string_view character = rest.substr(0, length);
    if (length > 0 && character != "\xEF\xBF\xBE" && character != "\xEF\xBF\xBF") {
      kept += character;
    } else {
      kept += rest.front() == '\n' ? '\n' : (rest.front() == '\t' ? ' ' : '?');
    }
    rest.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return kept;
}

void add_case(const Claim& claim, const ClaimResult& result, const std::string& tools,
              pugi::xml_node suite) {
  pugi::xml_node node = suite.append_child("testcase");
  node.append_attribute("classname") = xml_text(claim.source).c_str();
  node.append_attribute("name") = claim.id.c_str();
  node.append_attribute("file") = xml_text(claim.file).c_str();
  node.append_attribute("line") = static_cast<unsigned long long>(claim.line);
  node.append_attribute("time") = fmt::format("{:.3f}", result.seconds).c_str();
  if (!as_expected(claim, result)) {
    pugi::xml_node wrong = node.append_child(result.ran() ? "failure" : "error");
    wrong.append_attribute("message") = xml_text(explanation(claim, result)).c_str();
    wrong.text() = xml_text(cli::one_line(claim.statement) + "\n" + result.log + "\n" +
                            again_text(claim, tools))
                       .c_str();
  }
}

Json json_of(const SignificanceTest& test, const TestOutcome& found) {
  Json json = {{"kind", test_names()[static_cast<std::size_t>(test.kind)]},
               {"alternative", alternative_names()[static_cast<std::size_t>(test.alternative)]},
               {"n", found.count}};
  if (found.other_count > 0) json["n_against"] = found.other_count;
  json["estimate"] = json_number(found.estimate);
  json["interval"] = {json_number(found.interval.low), json_number(found.interval.high)};
  return json;
}

}  // namespace

std::string digits(double value, int count) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}g}", value, count);
}

std::string digits(std::optional<double> value, int count) {
  return value ? digits(*value, count) : "-";
}

std::optional<double> measured(const ClaimResult& result) {
  return result.ran() ? std::optional(result.verdict.measured) : std::nullopt;
}

std::string expected_text(const Claim& claim, const ClaimResult& result) {
  const Criterion& criterion = claim.criterion;
  const std::string relation = name(criterion.relation);
  std::string value;
  if (criterion.relation != Relation::increasing && criterion.relation != Relation::decreasing) {
    const auto* numbers = std::get_if<std::vector<double>>(&claim.expected);
    if (result.ran()) {
      value = digits(result.verdict.expected);
    } else {
      value = numbers == nullptr ? std::get<std::string>(claim.expected) : digits(numbers->front());
    }
  }
  std::string text = relation == "within" ? value : relation + (value.empty() ? "" : " " + value);
  if (criterion.tolerance > 0) text += fmt::format(" ± {:g}", criterion.tolerance);
  if (criterion.relative_tolerance > 0)
    text += fmt::format(" ± {:g} rel", criterion.relative_tolerance);
  return text;
}

std::string verdict_word(const ClaimResult& result) {
  if (!result.ran()) return "error";
  return result.verdict.holds ? "holds" : "refuted";
}

std::string explanation(const Claim& claim, const ClaimResult& result) {
  if (!result.ran()) return result.error;
  return fmt::format("measured {}, expected {}", digits(result.verdict.measured),
                     expected_text(claim, result));
}

bool is_near_its_bound(const Claim& claim, const ClaimResult& result, double least) {
  const auto room = headroom(claim, result);
  return claim.kind != ClaimKind::printed && room && *room >= 0 && *room < least;
}

ClaimResults::Counts ClaimResults::counts() const {
  Counts counts;
  for_each(*this, [&](const Claim& claim, const ClaimResult& result) {
    ++(!result.ran() ? counts.errors
                     : (tools::as_expected(claim, result) ? counts.as_expected : counts.otherwise));
    ++counts.of_kind.at(static_cast<std::size_t>(claim.kind));
  });
  return counts;
}

std::string claims_table(const ClaimResults& all) {
  std::vector<std::vector<std::string>> rows = {headings_of(claim_figures())};
  std::string tests;
  std::string wrong;
  for_each(all, [&](const Claim& claim, const ClaimResult& result) {
    rows.push_back(texts_of(claim_figures(), {claim, result}));
    if (result.test) tests += claim.id + ": " + test_text(*claim.test, *result.test) + "\n";
    if (!as_expected(claim, result)) wrong += failure_text(claim, result, all.tools);
  });
  const std::string text = aligned(rows) + (tests.empty() ? "" : "\n") + tests;
  return text + wrong + (wrong.empty() ? "" : "\n") + summary(all);
}

const Figures<ClaimRow>& claim_figures() {
  using Of = const ClaimRow&;
  const auto id = [](Of of) { return of.claim.id; };
  const auto source = [](Of of) { return of.claim.source; };
  const auto expected = [](Of of) { return expected_text(of.claim, of.result); };
  const auto margin = [](Of of) {
    return of.result.ran() ? std::optional(of.result.verdict.margin) : std::nullopt;
  };
  const auto room = [](Of of) { return headroom(of.claim, of.result); };
  static const Figures<ClaimRow> all = {
      {"file", [](Of of) { return of.claim.file; }, false},
      {"id", id, true, id},
      {"source", source, true, source},
      {"kind", [](Of of) { return name(of.claim.kind); }, false},
      {"expected", expected, true, expected},
      {"measured", [](Of of) { return cell(measured(of.result)); }, true,
       [](Of of) { return digits(measured(of.result)); }},
      {"margin", [=](Of of) { return cell(margin(of)); }, true,
       [=](Of of) { return digits(margin(of), 3); }},
      {"headroom", [=](Of of) { return cell(room(of)); }, true,
       [=](Of of) { return digits(room(of), 2); }},
      {"verdict", [](Of of) { return verdict_word(of.result); }, true,
       [](Of of) { return verdict_text(of.claim, of.result); }},
      {"as_expected", [](Of of) { return as_expected(of.claim, of.result); }, false},
      {"seconds", [](Of of) { return of.result.seconds; }, true,
       [](Of of) { return fmt::format("{:.2f}", of.result.seconds); }}};
  return all;
}

std::string claims_markdown(const ClaimResults& all) {
  std::vector<std::string> headings = headings_of(claim_figures());
  headings.front() = "claim";
  std::string text = fmt::format("| {} |\n|", fmt::join(headings, " | "));
  for (std::size_t n = 0; n < headings.size(); ++n) text += "---|";
  text += "\n";
  for_each(all, [&](const Claim& claim, const ClaimResult& result) {
    std::vector<std::string> row = texts_of(claim_figures(), {claim, result});
    for (std::string& cell : row) cell = markdown_cell(cell);
    // Ids have letters, digits and -_. only.
    row.front() = fmt::format("`{}`: {}", claim.id, markdown_cell(claim.statement));
    if (claim.refuted) row.front() += fmt::format(" (right: `{}`)", claim.right);
    if (result.test)
      row.front() += markdown_cell(" (" + test_text(*claim.test, *result.test) + ")");
    for (const std::string& cell : row) text += "| " + cell + " ";
    text += "|\n";
  });
  return text + "\n" + summary(all);
}

std::string claims_junit(const ClaimResults& all) {
  pugi::xml_document document;
  pugi::xml_node suites = document.append_child("testsuites");
  struct Suite {
    pugi::xml_node node;
    Index tests = 0, failures = 0, errors = 0;
    double seconds = 0;
  };
  std::map<std::string, Suite> by_file;
  for_each(all, [&](const Claim& claim, const ClaimResult& result) {
    Suite& suite = by_file[claim.file];
    if (!suite.node) suite.node = suites.append_child("testsuite");
    ++suite.tests;
    suite.seconds += result.seconds;
    suite.errors += result.ran() ? 0 : 1;
    suite.failures += result.ran() && !as_expected(claim, result) ? 1 : 0;
    add_case(claim, result, all.tools, suite.node);
  });
  for (auto& [file, suite] : by_file) {
    suite.node.append_attribute("name") = xml_text(file).c_str();
    suite.node.append_attribute("tests") = static_cast<long long>(suite.tests);
    suite.node.append_attribute("failures") = static_cast<long long>(suite.failures);
    suite.node.append_attribute("errors") = static_cast<long long>(suite.errors);
    suite.node.append_attribute("time") = fmt::format("{:.3f}", suite.seconds).c_str();
  }
  std::ostringstream text;
  document.save(text, "  ");
  return text.str();
}

nlohmann::ordered_json claims_json(const ClaimResults& all) {
  const ClaimResults::Counts counts = all.counts();
  Json kinds;
  for (std::size_t n = 0; n < counts.of_kind.size(); ++n) {
    kinds[claim_kind_names()[n]] = counts.of_kind[n];
  }
  Json json = {{"claims", all.claims.size()},   {"as_expected", counts.as_expected},
               {"otherwise", counts.otherwise}, {"errors", counts.errors},
               {"kinds", std::move(kinds)},     {"list", Json::array()}};
  for_each(all, [&](const Claim& claim, const ClaimResult& result) {
    Json entry;
    const ClaimRow row{claim, result};
    add_members(claim_figures(), row, {"id", "source", "kind"}, entry);
    entry["statement"] = claim.statement;
    entry["tags"] = claim.tags;
    entry["relation"] = name(claim.criterion.relation);
    entry["tolerance"] = claim.criterion.tolerance;
    entry["relative_tolerance"] = claim.criterion.relative_tolerance;
    entry["why"] = claim.why;
    entry["expect"] = claim.refuted ? "refuted" : "holds";
    if (claim.refuted) entry["right"] = claim.right;
    add_members(claim_figures(), row, {"verdict", "as_expected", "measured"}, entry);
    entry["expected"] = result.ran() ? Json(result.verdict.expected) : Json();
    add_members(claim_figures(), row, {"margin", "headroom"}, entry);
    if (!result.ran()) entry["error"] = result.error;
    if (result.test) entry["test"] = json_of(*claim.test, *result.test);
    if (!as_expected(claim, result)) {
      entry["files"] = result.files;
      entry["again"] = again_text(claim, all.tools);
    }
    add_members(claim_figures(), row, {"seconds"}, entry);
    entry["cached"] = result.cached;
    if (!result.not_kept.empty()) entry["not_kept"] = result.not_kept;
    json["list"].push_back(std::move(entry));
  });
  return json;
}

}  // namespace attn::tools
