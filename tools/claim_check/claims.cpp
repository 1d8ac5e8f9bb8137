#include "claim_check/claims.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "claim_check/claim_table.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/toml_file.hpp"

namespace attn::tools {
namespace {

const std::set<std::string>& claim_keys() {
  static const std::set<std::string> keys = {"id",          "source",
                                             "statement",   "tags",
                                             "command",     "time-limit",
                                             "status",      "alone",
                                             "value",       "line",
                                             "pattern",     "column",
                                             "over",        "reduce",
                                             "quantifier",  "test",
                                             "alternative", "against",
                                             "relation",    "expected",
                                             "tolerance",   "relative-tolerance",
                                             "scale",       "why",
                                             "expect",      "right",
                                             "kind",        "perturb",
                                             "unperturbed"};
  return keys;
}

bool is_inequality(Relation relation) {
  return relation == Relation::less || relation == Relation::at_most ||
         relation == Relation::greater || relation == Relation::at_least;
}

bool is_ordered(Relation relation) {
  return relation == Relation::increasing || relation == Relation::decreasing;
}

bool has_one_verdict(const Claim& claim) {
  return is_ordered(claim.criterion.relation) || claim.criterion.relation == Relation::significant;
}

void read_expected(const ClaimTable& table, Claim& claim) {
  const bool ordered = is_ordered(claim.criterion.relation);
  if (ordered != !table.has("expected")) {
    table.refuse("expected",
                 ordered ? "has no meaning for " + name(claim.criterion.relation) : "is missing");
  }
  if (ordered) return;
  if (table.is_text("expected")) {
    claim.expected = table.needed_text("expected");
    return;
  }
  auto numbers = table.list<double>("expected", "numbers, or their address");
  if (numbers.empty()) table.refuse("expected", "is empty");
  if (std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); })) {
    table.refuse("expected", "is nan, which nothing equals");
  }
  claim.expected = std::move(numbers);
}

void read_criterion(const ClaimTable& table, Claim& claim) {
  Criterion& criterion = claim.criterion;
  const auto relation = table.choice("relation", relation_names());
  if (!relation) table.refuse("relation", "is missing");
  criterion.relation = static_cast<Relation>(*relation);
  criterion.tolerance = table.not_negative("tolerance");
  criterion.relative_tolerance = table.not_negative("relative-tolerance");
  const bool tolerant = criterion.tolerance > 0 || criterion.relative_tolerance > 0;
  claim.why = table.text("why").value_or("");
  if (tolerant && claim.why.empty()) {
    table.refuse("why", "is missing: state the reason for the tolerance");
  }
  if (!tolerant &&
      (criterion.relation == Relation::within || criterion.relation == Relation::slope)) {
    table.refuse("tolerance", name(criterion.relation) + " needs one > 0");
  }
  criterion.scale = table.not_negative("scale");
  if (criterion.scale > 0 && (tolerant || !is_inequality(criterion.relation))) {
    table.refuse("scale", "applies only to inequalities without tolerance");
  }
  if (is_ordered(criterion.relation) && criterion.relative_tolerance > 0) {
    table.refuse("relative-tolerance", "has no meaning for " + name(criterion.relation));
  }
}

void read_text_place(const ClaimTable& table, Claim& claim) {
  claim.text.pattern = table.text("pattern");
  try {
    require_pattern(claim.text);
  } catch (const Error& error) {
    table.refuse("pattern", error.what());
  }
  if (const auto line = table.get<std::int64_t>("line", "a whole number")) {
    if (*line == 0) table.refuse("line", "is 0, expected 1 for the first, or -1 for the last");
    claim.text.line = *line;
  }
  if (table.has("column")) {
    claim.text.column =
        table.is_text("column")
            ? table.needed_text("column")
            : std::to_string(*table.get<std::int64_t>("column", "a name or number"));
  }
  if (claim.value == stdout_file && !claim.text.is_set()) {
    table.refuse("value", "stdout needs line, pattern or column");
  }
  if (claim.text.is_set() &&
      (claim.value == "status" || claim.value.find(':') != std::string::npos)) {
    table.refuse("value", "expected a text file, as line, pattern or column is given");
  }
}

void read_test(const ClaimTable& table, Claim& claim) {
  const bool is_test = claim.criterion.relation == Relation::significant;
  for (const char* key : {"test", "alternative", "against"}) {
    if (is_test == table.has(key)) continue;
    table.refuse(key, is_test ? "is missing: p< needs it" : "has a meaning for relation p< only");
  }
  if (!is_test) return;
  SignificanceTest test;
  test.kind = static_cast<TestKind>(table.choice("test", test_names()).value());
  test.alternative =
      static_cast<Alternative>(table.choice("alternative", alternative_names()).value());
  if (table.is_text("against")) {
    test.against = table.needed_text("against");
  } else {
    test.against = table.list<double>("against", "numbers, or their address");
  }
  claim.test = std::move(test);
  const auto* level = std::get_if<std::vector<double>>(&claim.expected);
  if (level == nullptr || level->size() != 1 || !(level->front() > 0 && level->front() < 1)) {
    table.refuse("expected", "is no level between 0 and 1");
  }
  if (claim.reduction) table.refuse("reduce", "has no meaning for p<");
  if (claim.criterion.tolerance > 0 || claim.criterion.relative_tolerance > 0) {
    table.refuse("tolerance", "has no meaning for p<");
  }
}

void read_value(const ClaimTable& table, Claim& claim) {
  claim.value = table.needed_text("value");
  claim.over = table.text("over");
  for (const char* key : {"value", "over", "expected", "against"}) {
    if (table.is_text(key) && table.needed_text(key).find("../") != std::string::npos) {
      table.refuse(key, "leaves the claim's directory");
    }
  }
  for (const char* key : {"expected", "against"}) {
    if (table.is_text(key) && cli::to_number(table.needed_text(key))) {
      table.refuse(key, "is a text, expected a number without quotes, or the place of numbers");
    }
  }
  if (claim.over.has_value() != (claim.criterion.relation == Relation::slope)) {
    table.refuse("over", claim.over ? "requires relation slope" : "is missing: slope needs it");
  }
  if (const auto reduction = table.choice("reduce", reduction_names())) {
    if (claim.over || is_ordered(claim.criterion.relation)) {
      table.refuse("reduce", "has no meaning for " + name(claim.criterion.relation));
    }
    claim.reduction = static_cast<Reduction>(*reduction);
  }
  claim.criterion.any = table.choice("quantifier", {"all", "any"}).value_or(0) == 1;
  if (claim.criterion.any && (claim.reduction || claim.over || has_one_verdict(claim))) {
    table.refuse("quantifier", "any has no meaning for one number");
  }
}

void read_run(const ClaimTable& table, Claim& claim) {
  claim.command = table.needed_text("command");
  claim.time_limit = table.number("time-limit").value_or(claim.time_limit);
  if (!(claim.time_limit > 0 && claim.time_limit <= 86400)) {
    table.refuse("time-limit", "expected seconds in (0, 86400]");
  }
  claim.alone = table.get<bool>("alone", "true or false").value_or(false);
  if (!table.has("status")) return;
  claim.status.clear();
  if (table.is_empty_list("status")) table.refuse("status", "is empty");
  for (const std::int64_t status : table.list<std::int64_t>("status", "exit statuses")) {
    if (status < 0 || status > 125) table.refuse("status", "expected exit statuses in [0, 125]");
    claim.status.push_back(static_cast<int>(status));
  }
}

void read_perturbation(const ClaimTable& table, Claim& claim) {
  claim.kind = static_cast<ClaimKind>(table.choice("kind", claim_kind_names()).value_or(0));
  const bool printed = claim.kind == ClaimKind::printed;
  claim.unperturbed = table.text("unperturbed").value_or("");
  if (!claim.unperturbed.empty() && (printed || table.has("perturb"))) {
    table.refuse("unperturbed",
                 printed ? "has no meaning for a printed claim" : "contradicts perturb");
  }
  if (!table.has("perturb")) return;
  const auto texts = table.list<std::string>("perturb", "two texts");
  if (texts.size() != 2) {
    table.refuse("perturb", "expected two texts: a part of the command, and what replaces it");
  }
  if (texts[0].empty() || claim.command.find(texts[0]) == std::string::npos) {
    table.refuse("perturb", "\"" + cli::one_line(texts[0]) + "\" is no part of the command");
  }
  if (texts[0] == texts[1]) table.refuse("perturb", "changes nothing");
  claim.perturbation = Perturbation{texts[0], texts[1]};
}

void read_verdict(const ClaimTable& table, Claim& claim) {
  claim.refuted = table.choice("expect", {"holds", "refuted"}).value_or(0) == 1;
  claim.right = table.text("right").value_or("");
  if (claim.refuted == claim.right.empty()) {
    table.refuse("right", claim.refuted ? "is missing: the id of the corrected claim"
                                        : "requires expect = \"refuted\"");
  }
}

bool is_word(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// A directory is named after it.
constexpr std::size_t longest_id = 200;

void require_words(const ClaimTable& table, const std::string& key,
                   const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.empty() || !is_word(word) || word.front() == '.') {
      table.refuse(key, "\"" + cli::one_line(word) + "\", expected letters, digits, - _ .");
    }
  }
}

Claim read_claim(const ClaimTable& table, const ClaimTable& top, const std::string& file) {
  table.require_known(claim_keys());
  Claim claim;
  claim.file = file;
  claim.line = table.line();
  claim.id = table.needed_text("id");
  require_words(table, "id", {claim.id});
  if (claim.id.size() > longest_id) {
    table.refuse("id", fmt::format("is of {}, expected at most {}",
                                   cli::counted(claim.id.size(), "letter"), longest_id));
  }
  claim.statement = table.needed_text("statement");
  const auto source = table.text("source");
  claim.source = source ? *source : top.text("source").value_or("");
  if (claim.source.empty()) table.refuse("source", "is missing");
  claim.tags = top.list<std::string>("tags", "words");
  for (const std::string& tag : table.list<std::string>("tags", "words")) {
    claim.tags.push_back(tag);
  }
  require_words(table, "tags", claim.tags);
  read_criterion(table, claim);
  read_expected(table, claim);
  read_value(table, claim);
  read_text_place(table, claim);
  read_test(table, claim);
  read_run(table, claim);
  read_perturbation(table, claim);
  read_verdict(table, claim);
  return claim;
}

void read_file(const std::string& file, std::vector<Claim>& claims) {
  const toml::table parsed = parse_toml(file, "a file of claims");
  const ClaimTable top(file, parsed);
  top.require_known({"source", "tags", "claim"});
  top.text("source");
  const toml::array* tables = parsed["claim"].as_array();
  if (tables == nullptr || tables->empty() || !tables->is_homogeneous<toml::table>()) {
    throw Error(Failure::input, file + ": claim: expected tables [[claim]]");
  }
  for (const toml::node& node : *tables) {
    claims.push_back(read_claim(ClaimTable(file, *node.as_table()), top, file));
  }
}

void require_unique_ids(const std::vector<Claim>& claims) {
  std::map<std::string, const Claim*> by_id;
  for (const Claim& claim : claims) {
    const auto [at, is_new] = by_id.emplace(claim.id, &claim);
    if (is_new) continue;
    throw Error(Failure::input,
                fmt::format("{}:{}: id: {} is also used at {}:{}", claim.file, claim.line, claim.id,
                            at->second->file, at->second->line));
  }
  for (const Claim& claim : claims) {
    if (claim.right.empty()) continue;
    const auto right = by_id.find(claim.right);
    if (right != by_id.end() && !right->second->refuted) continue;
    throw Error(Failure::input,
                fmt::format("{}:{}: right: {}", claim.file, claim.line,
                            right == by_id.end() ? "no claim is called " + claim.right
                                                 : claim.right + " is itself marked as refuted"));
  }
}

}  // namespace

const std::vector<std::string>& claim_kind_names() {
  static const std::vector<std::string> names = {"tool", "statistics", "printed"};
  return names;
}

std::string name(ClaimKind kind) { return claim_kind_names()[static_cast<std::size_t>(kind)]; }

std::string folder_of(const Claim& claim) {
  return std::filesystem::absolute(claim.file).lexically_normal().parent_path().string();
}

std::vector<Claim> read_claims(const std::vector<std::string>& files) {
  std::vector<Claim> claims;
  for (const std::string& file : files) read_file(file, claims);
  require_unique_ids(claims);
  return claims;
}

void require_perturbations(std::span<const Claim> claims) {
  std::vector<const Claim*> lacking;
  for (const Claim& claim : claims) {
    if (claim.kind == ClaimKind::printed || claim.perturbation) continue;
    if (claim.unperturbed.empty()) lacking.push_back(&claim);
  }
  if (lacking.empty()) return;
  const Claim& first = *lacking.front();
  throw Error(
      Failure::input,
      fmt::format("{}:{}: {}: perturb is missing{}", first.file, first.line, first.id,
                  lacking.size() == 1 ? std::string()
                                      : fmt::format(", and in {} more claims", lacking.size() - 1)),
      "perturb = [\"a part of the command\", \"what makes the claim fail in its place\"]");
}

}  // namespace attn::tools
