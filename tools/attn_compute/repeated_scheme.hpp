#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attn_compute/attention_results.hpp"
#include "cli/command.hpp"
#include "common/heads/attention_input.hpp"
#include "common/results/settings.hpp"

/// The schemes of attn-compute that repeat attention on queries that move (Repetition).
namespace attn::tools {

struct RepeatedScheme {
  std::string_view name;
  Scheme each_time;
  std::string_view help;     ///< the text after the name in the help
  std::string_view formula;  ///< for the manual page
};

inline constexpr std::array<RepeatedScheme, 2> repeated_schemes = {
    {{"em", Scheme::dnas,
      "dnas repeated as EM of a mixture of Gaussians with the queries as centres.",
      "T times q_i = sum_j weight_ij k_j, with s_ij = log b_i N(k_j|q_i,S_i)"},
     {"mean-shift", Scheme::unas, "unas repeated, with queries that move to the means of keys.",
      "T times q_i = sum_j weight_ij k_j, with g_j = 0"}}};

/// The scheme called `scheme`, or the scheme of each of its steps.
Scheme scheme_each_time(const std::string& scheme);

/// Declares --estimate and --min-variance.
void declare_estimates(cli::Declaration& d);

/// Nothing unless --scheme repeats attention. Throws Error(usage) for options that are missing or
/// have no effect.
std::optional<Repetition> repetition_of(const cli::Arguments& arguments);

/// Throws the errors of require_repetition.
void require_repeatable(const ComputeOptions& options, const AttentionInput& input);

/// attn_repeated, and for em attn_estimate and attn_min_variance. Requires options.repetition.
std::vector<std::pair<std::string, Setting>> repetition_settings(const ComputeOptions& options);

}  // namespace attn::tools
