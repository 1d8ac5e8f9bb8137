#pragma once

#include <string>

#include "claim_check/claim_report.hpp"

namespace attn::tools {

/// The measured numbers for a paper: a line \newcommand{\claimDnasBound}{\ensuremath{2.89493}} for
/// each claim, named after its id in capitals, with digits as words. A claim that did not come out
/// as expected has no line, so that a paper that uses it does not build. Throws Error(input) if two
/// ids make one name.
std::string claims_latex(const ClaimResults& all);

/// Results for code hosts (SARIF 2.1.0): an error at the line of each claim that did not come out
/// as expected, a warning if the headroom is below `least`, and a rule for each claim.
std::string claims_sarif(const ClaimResults& all, const std::string& version, double least);

}  // namespace attn::tools
