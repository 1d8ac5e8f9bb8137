#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "claim_check/claim_verdict.hpp"

namespace attn::tools {

/// A numerical claim of a document, as a file of claims has it.
struct Claim {
  std::string id;
  std::string source;     ///< document and place: "DN Lemma 1"
  std::string statement;  ///< one sentence
  std::vector<std::string> tags;

  std::string command;         ///< for bash, in a fresh directory
  double time_limit = 60;      ///< seconds
  std::vector<int> status{0};  ///< exit statuses that the command may have
  bool alone = false;          ///< nothing runs beside it: it measures time

  std::string value;                ///< where what is claimed of stands: claim_values.hpp
  std::optional<std::string> over;  ///< slope: where the abscissae stand
  std::optional<Reduction> reduction;
  std::variant<std::vector<double>, std::string> expected;  ///< numbers, or where they stand
  Criterion criterion;
  std::string why;  ///< of the tolerance

  bool refuted = false;  ///< printed, and wrong: it is to fail
  std::string right;     ///< refuted: the id of the claim that says it right

  std::string file;  ///< where it stands
  std::size_t line = 0;
};

/// The claims of TOML files, in their order: an array of tables `claim`. Keys `source` and `tags`
/// at the top of a file are the defaults of its claims' (tags add up). Throws Error(input), naming
/// file, line and key, for what is not TOML, keys that are unknown, missing, of another type or at
/// odds with others, and ids that are there twice or, in `right`, nowhere.
std::vector<Claim> read_claims(const std::vector<std::string>& files);

}  // namespace attn::tools
