#include "claim_check/claim_exports.hpp"

#include <cctype>
#include <map>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "claim_check/claim_json.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

// Names of commands have letters only.
std::string command_name(const std::string& id) {
  static constexpr const char* digits[] = {"Zero", "One", "Two",   "Three", "Four",
                                           "Five", "Six", "Seven", "Eight", "Nine"};
  std::string name = "claim";
  bool begins = true;
  for (const char c : id) {
    if (c >= '0' && c <= '9') {
      name += digits[c - '0'];
      begins = true;
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      name += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      begins = false;
    } else {
      begins = true;
    }
  }
  return name;
}

// "1.2e-05" is 1.2\times10^{-5}.
std::string latex_number(double value) {
  const std::string text = digits(value);
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text == "inf" ? "\\infty" : text == "-inf" ? "-\\infty" : text;
  return fmt::format("{}\\times10^{{{}}}", text.substr(0, e), std::stoi(text.substr(e + 1)));
}

// RFC 3986: other characters are written by their bytes.
std::string uri_of(const std::string& file) {
  std::string uri;
  for (const char c : file) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

Json sarif_result(const Claim& claim, const char* level, const std::string& message) {
  const Json place = {{"artifactLocation", {{"uri", uri_of(claim.file)}}},
                      {"region", {{"startLine", claim.line}}}};
  return {{"ruleId", claim.id},
          {"level", level},
          {"message", {{"text", message}}},
          {"locations", Json::array({{{"physicalLocation", place}}})}};
}

}  // namespace

std::string claims_latex(const ClaimResults& all) {
  std::string text;
  std::map<std::string, std::string> ids;
  for (std::size_t n = 0; n < all.claims.size(); ++n) {
    const Claim& claim = all.claims[n];
    const ClaimResult& result = all.results[n];
    const std::string name = command_name(claim.id);
    const auto [at, is_new] = ids.emplace(name, claim.id);
    if (!is_new) {
      throw Error(Failure::input, fmt::format("{}:{}: id: {} and {} are both \\{} in LaTeX",
                                              claim.file, claim.line, claim.id, at->second, name));
    }
    text += fmt::format("% {}: {}\n", claim.id, cli::one_line(claim.statement));
    if (as_expected(claim, result)) {
      text += fmt::format("\\newcommand{{\\{}}}{{\\ensuremath{{{}}}}}\n", name,
                          latex_number(result.verdict.measured));
    } else {
      text += "% It did not come out as expected.\n";
    }
  }
  return text;
}

std::string claims_sarif(const ClaimResults& all, const std::string& version, double least) {
  Json rules = Json::array();
  Json results = Json::array();
  for (std::size_t n = 0; n < all.claims.size(); ++n) {
    const Claim& claim = all.claims[n];
    const ClaimResult& result = all.results[n];
    rules.push_back({{"id", claim.id},
                     {"shortDescription", {{"text", claim.statement}}},
                     {"help", {{"text", claim.source}}}});
    if (!as_expected(claim, result)) {
      results.push_back(
          sarif_result(claim, "error", claim.statement + " " + explanation(claim, result)));
    } else if (is_near_its_bound(claim, result, least)) {
      results.push_back(sarif_result(claim, "warning",
                                     fmt::format("{} Its headroom is {}.", claim.statement,
                                                 digits(*headroom(claim, result), 2))));
    }
  }
  const Json driver = {{"name", "claim-check"}, {"version", version}, {"rules", std::move(rules)}};
  const Json sarif = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
      {"version", "2.1.0"},
      {"runs", Json::array({{{"tool", {{"driver", driver}}}, {"results", std::move(results)}}})}};
  // Outputs of commands may have bytes that are not UTF-8.
  return cli::printing_json(sarif.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace attn::tools
