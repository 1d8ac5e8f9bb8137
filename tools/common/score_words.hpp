#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/score_options.hpp"

namespace attn::tools {

/// What --help says of the options that say how scores are made, and which words they take: the
/// same options in other words, by what the scores are for.
struct ScoreWords {
  std::vector<std::string> energies;
  std::string energy;
  std::string scale;
  std::string relative_bias;
  std::string softcap;  ///< empty: there is no such option, as with alpha
  std::string alpha;
  std::vector<std::string> sources;
  std::optional<std::string> source_default;
  std::string from;
  std::string layout;
};

ScoreWords score_words(ScoreUse use);

}  // namespace attn::tools
