#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "claim_check/claim_verdict.hpp"
#include "claim_check/significance_test.hpp"
#include "claim_check/text_values.hpp"

namespace attn::tools {

/// The file in a claim's directory with the standard output of its command, if the claim reads
/// numbers from it.
inline constexpr const char* stdout_file = "stdout";

/// A change of a claim's command, under which the claim must come out the other way.
struct Perturbation {
  std::string text;         ///< occurs in the command
  std::string replacement;  ///< takes its place wherever it occurs
};

/// What a claim holds a document against.
enum class ClaimKind {
  tool,        ///< its command runs a tool, or another program, that computes the number
  statistics,  ///< a statistic or a sum of printed numbers
  printed      ///< printed constants only; nothing is computed
};
/// "tool", "statistics", "printed", in that order.
const std::vector<std::string>& claim_kind_names();
std::string name(ClaimKind kind);

/// A numerical claim of a document, as written in a file of claims.
struct Claim {
  std::string id;
  std::string source;     ///< document and place: "DN Lemma 1"
  std::string statement;  ///< one sentence
  std::vector<std::string> tags;

  std::string command;         ///< for bash, in a fresh directory
  double time_limit = 60;      ///< seconds
  std::vector<int> status{0};  ///< exit statuses that the command may have
  bool alone = false;          ///< nothing may run at the same time, since it measures time

  std::string value;                ///< address of the measured number (values_at)
  TextPlace text;                   ///< if set, value is a text file (text_values)
  std::optional<std::string> over;  ///< for slope: address of the abscissae
  std::optional<Reduction> reduction;
  std::variant<std::vector<double>, std::string> expected;  ///< numbers, or their address
  std::optional<SignificanceTest> test;                     ///< of relation p<
  Criterion criterion;
  std::string why;  ///< reason for the tolerance

  ClaimKind kind = ClaimKind::tool;
  std::optional<Perturbation> perturbation;
  std::string unperturbed;  ///< why there is no perturbation, although the claim is not printed

  bool refuted = false;  ///< printed but wrong: it must fail
  std::string right;     ///< if refuted: the id of the corrected claim

  std::string file;  ///< file that contains the claim
  std::size_t line = 0;
};

/// The absolute path of the folder of the claim's file, $CLAIMS.
std::string folder_of(const Claim& claim);

/// Reads the claims of TOML files, in order: an array of tables `claim`. Keys `source` and `tags`
/// at the top of a file are defaults for its claims (tags add up). Throws Error(input), naming
/// file, line and key, for text that is not TOML; keys that are unknown, missing, of the wrong type
/// or contradictory; repeated ids; and ids in `right` that do not exist.
std::vector<Claim> read_claims(const std::vector<std::string>& files);

/// Throws Error(input), naming file and line of the first claim of a kind other than printed with
/// neither a perturbation nor a reason why there is none.
void require_perturbations(std::span<const Claim> claims);

}  // namespace attn::tools
