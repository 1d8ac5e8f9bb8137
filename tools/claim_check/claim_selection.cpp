#include "claim_check/claim_selection.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "claim_check/claim_json.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

bool is_called(const Claim& claim, const std::string& word) {
  return claim.id == word || std::count(claim.tags.begin(), claim.tags.end(), word) > 0;
}

bool is_any_of(const Claim& claim, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return is_called(claim, word); });
}

// The ids and tags in a list; each must belong to some claim.
std::vector<std::string> words_of(const cli::Arguments& arguments, const std::string& option,
                                  const std::vector<Claim>& claims) {
  std::vector<std::string> words = cli::split(arguments.text(option), ',');
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  if (arguments.given(option) && words.empty()) {
    throw Error(Failure::usage, "--" + option + " names no claim");
  }
  for (const std::string& word : words) {
    const bool known = std::any_of(claims.begin(), claims.end(),
                                   [&](const Claim& claim) { return is_called(claim, word); });
    if (known) continue;
    throw Error(Failure::usage, "--" + option + ": no claim has the id or tag " + word,
                "--list shows the claims");
  }
  return words;
}

// The lines of its command, each with a start.
std::string command_lines(const Claim& claim, const std::string& start) {
  std::string text;
  std::istringstream lines(claim.command);
  for (std::string line; std::getline(lines, line);) text += start + cli::one_line(line) + "\n";
  return text;
}

}  // namespace

std::vector<Claim> selected(const cli::Arguments& arguments, const std::vector<Claim>& claims) {
  const std::vector<std::string> wanted = words_of(arguments, "select", claims);
  const std::vector<std::string> unwanted = words_of(arguments, "skip", claims);
  std::vector<Claim> kept;
  for (const Claim& claim : claims) {
    if (!wanted.empty() && !is_any_of(claim, wanted)) continue;
    if (!is_any_of(claim, unwanted)) kept.push_back(claim);
  }
  if (kept.empty()) throw Error(Failure::usage, "--skip leaves no claim");
  return kept;
}

std::string listing(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims) {
    text += fmt::format("{}  {}  [{}]{}\n    {}\n{}", claim.id, cli::one_line(claim.source),
                        fmt::join(claim.tags, " "), claim.refuted ? "  refuted" : "",
                        cli::one_line(claim.statement), command_lines(claim, "    > "));
  }
  return text;
}

std::string commands_text(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims) {
    text += fmt::format("{}  {}:{}  CLAIMS={}\n{}", claim.id, cli::one_line(claim.file), claim.line,
                        cli::shell_quoted(folder_of(claim)), command_lines(claim, "    "));
  }
  return text + fmt::format("\n{}, not run\n", cli::counted(claims.size(), "command"));
}

nlohmann::ordered_json commands_json(const std::vector<Claim>& claims) {
  Json list = Json::array();
  for (const Claim& claim : claims) {
    list.push_back({{"id", claim.id},
                    {"source", claim.source},
                    {"statement", claim.statement},
                    {"tags", claim.tags},
                    {"file", claim.file},
                    {"line", claim.line},
                    {"command", claim.command}});
  }
  return {{"claims", claims.size()}, {"list", std::move(list)}};
}

}  // namespace attn::tools
