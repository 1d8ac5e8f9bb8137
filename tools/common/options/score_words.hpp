#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/options/score_options.hpp"

namespace attn::tools {

/// The help texts and choices of the score options, by purpose of the scores.
struct ScoreWords {
  std::vector<std::string> energies;
  std::string energy;
  std::string energy_default;  ///< in words, if it is not the usual default
  std::string scale;
  std::string relative_bias;
  std::string softcap;
  std::string alpha;  ///< empty: the option does not exist
  std::vector<std::string> sources;
  std::optional<std::string> source_default;
  std::string source_default_words;  ///< in place of source_default
  std::string from;
  std::string layout;
};

ScoreWords score_words(ScoreUse use);

}  // namespace attn::tools
